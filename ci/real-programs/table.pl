# Hashes, regular expressions, sorting, closures, formats and forks.
use strict;
use warnings;

my %count;
my $state = 42;
for (1 .. 200_000) {
    $state = ($state * 1103515245 + 12345) % 2147483648;
    $count{ "word" . $state % 5000 } .= chr(97 + $state % 26);
}
my @order = sort { length $count{$b} <=> length $count{$a} || $a cmp $b } keys %count;
printf "%d words, most often %s (%d)\n", scalar @order, $order[0], length $count{ $order[0] };

my $text = join " ", map { "$_=$count{$_}" } @order;
my $hits = () = $text =~ /word(\d+)=[a-m]*([n-z])/g;
( my $squeezed = $text ) =~ s/(.)\1+/$1/g;
printf "%d hits, %d characters, %d squeezed\n", $hits, length $text, length $squeezed;

my @adders = map { my $n = $_; sub { return $_[0] + $n } } 1 .. 10_000;
my $sum = 0;
$sum = $_->($sum) for @adders;
print "sum $sum\n";

my $tree;
for ( 1 .. 19_990 ) { $tree = { left => $tree, value => [ $_ x 3 ] } if $_ % 100; $tree = undef if $_ % 1000 == 0 }
print "last ", join( ",", @{ $tree->{value} // ["none"] } ), "\n";

for my $n ( 1 .. 20 ) {
    my $pid = fork() // die "fork: $!";
    if ( $pid == 0 ) { my @copy = map { "$_$n" } @order; exit( @copy == @order ? $n : 99 ) }
    waitpid $pid, 0;
    printf "%d ", $? >> 8;
}
print "\n";
