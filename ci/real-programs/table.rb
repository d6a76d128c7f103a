# Ruby: threads, fibres and ractors that make strings and hashes; the heap is
# compacted between; children by fork and by spawn.
require 'digest'
require 'json'
require 'open3'
require 'stringio'
require 'zlib'

Warning[:experimental] = false

def table(seed, rows)
  state = seed
  hash = {}
  rows.times do |n|
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
    key = "key#{state % 5000}"
    (hash[key] ||= +'') << ('a'..'z').to_a[n % 26] * (state % 40)
    hash.delete("key#{state / 7 % 5000}") if n % 5 == 0
  end
  Digest::SHA256.hexdigest(hash.sort.flatten.join(','))
end

threads = 6.times.map { |seed| Thread.new { table(seed, 15_000) } }
told = threads.map(&:value)
puts told
GC.start
GC.compact if GC.respond_to?(:compact)
puts table(99, 15_000)

ractors = 3.times.map { |seed| Ractor.new(seed) { |s| (1..20_000).map { |n| "#{n * s}" * 3 }.join.sum } }
puts ractors.map(&:take).inspect

fibres = 50.times.map { |n| Fiber.new { 40.times { |m| Fiber.yield 'f' * (n * m) }; nil } }
length = 0
until fibres.empty?
  fibres.select! { |fibre| (text = fibre.resume) ? (length += text.size) : nil }
end
puts "fibres #{length}"

packed = Zlib::Deflate.deflate((1..50_000).to_a.join(' '), 6)
puts Digest::MD5.hexdigest(packed), Zlib::Inflate.inflate(packed).size
big = (1..400).inject(:*) ** 20
puts Digest::MD5.hexdigest(big.to_s)
puts Digest::MD5.hexdigest(JSON.generate(JSON.parse(JSON.generate((1..5000).map { |n| { 'n' => n, 't' => 'x' * (n % 90) } }))))
puts 'abc def ' .*(5000).gsub(/(\w)(\w)/) { $2 + $1 }.sum

worker = Thread.new { 300.times { |n| table(n, 50) } }
codes = 8.times.map do |n|
  pid = fork do
    told = table(n, 2000)
    exit!(told.sum % 200)
  end
  Process.wait2(pid)[1].exitstatus
end
puts codes.inspect
puts 10.times.map { |n| Open3.capture2('tr a-z A-Z', stdin_data: 'text' * n * 100)[0].sum }.inspect
worker.join
