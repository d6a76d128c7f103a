<?php
// PHP: strings and arrays that grow and shrink, expressions, text formats,
// cyclic garbage, and children by fork.
mt_srand(7);
$words = [];
for ($n = 0; $n < 400000; $n++) {
    $key = 'k' . mt_rand(0, 9999);
    $words[$key] = ($words[$key] ?? '') . chr(97 + $n % 26);
    if ($n % 7 == 0) unset($words['k' . mt_rand(0, 9999)]);
}
ksort($words);
echo count($words), ' ', md5(json_encode($words)), "\n";

$text = str_repeat('the quick brown fox jumps over 12 lazy dogs. ', 4000);
echo preg_match_all('/(\w+)\s+(\w+)/', $text, $found), ' ', md5(serialize($found)), "\n";
echo md5(preg_replace_callback('/\d+/', fn($m) => str_repeat('#', (int) $m[0]), $text)), "\n";

class Node { public array $to = []; public string $name; }
for ($round = 0; $round < 100; $round++) {
    $nodes = [];
    for ($n = 0; $n < 500; $n++) {
        $node = new Node;
        $node->name = str_repeat('n', $n % 40);
        $node->to[] = $nodes[$n - 1] ?? $node;
        if ($n) $nodes[$n - 1]->to[] = $node;
        $nodes[] = $node;
    }
}
unset($nodes, $node);
echo 'cycles ', gc_collect_cycles() > 0 ? 'collected' : 'none', "\n";

$heap = new SplPriorityQueue;
for ($n = 0; $n < 60000; $n++) $heap->insert("item$n", mt_rand());
$hash = hash_init('sha256');
while (!$heap->isEmpty()) hash_update($hash, $heap->extract());
echo hash_final($hash), "\n";

function blocks(int $size) { for ($n = 0; $n < 200; $n++) yield str_repeat(chr($n), $size * $n); }
$sum = 0;
foreach (blocks(5000) as $block) $sum += crc32($block);
echo $sum, "\n";

if (function_exists('pcntl_fork')) {
    for ($child = 0; $child < 8; $child++) {
        $pid = pcntl_fork();
        if ($pid == 0) {
            $kept = [];
            for ($n = 0; $n < 5000; $n++) $kept[$n % 97] = str_repeat("$child", $n);
            exit(strlen(implode('', $kept)) % 100 + $child);
        }
        pcntl_waitpid($pid, $status);
        echo "child $child ", pcntl_wexitstatus($status), "\n";
    }
}
echo md5(shell_exec('printf "%s\n" c b a | sort')), "\n";
