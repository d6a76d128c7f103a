// Reads its own kind of text with <regex>, counts in <map>, sorts in threads.
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

static std::string text(unsigned seed, int lines) {
    std::ostringstream out;
    for (int n = 0; n < lines; n++) {
        seed = seed * 1664525u + 1013904223u;
        out << "user" << (seed >> 20) % 200 << "@host" << (seed >> 10) % 30 << ".example.org took "
            << seed % 1000 << " ms\n";
    }
    return out.str();
}

int main() {
    const std::regex line(R"((\w+)@([\w.]+) took (\d+) ms)");
    std::map<std::string, std::vector<int>> times;
    const std::string input = text(7, 4000);
    for (std::sregex_iterator at(input.begin(), input.end(), line), end; at != end; ++at)
        times[(*at)[2]].push_back(std::stoi((*at)[3]));
    for (auto &[host, list] : times) {
        std::sort(list.begin(), list.end());
        std::cout << host << ' ' << list.size() << ' ' << list[list.size() / 2] << '\n';
    }

    // Each thread frees what another one made.
    std::vector<std::vector<std::unique_ptr<std::string>>> made(4);
    for (int round = 0; round < 2; round++) {
        std::vector<std::thread> threads;
        for (int t = 0; t < 4; t++)
            threads.emplace_back([&made, t, round] {
                auto &mine = made[(t + round) % 4];
                mine.clear();
                for (int n = 0; n < 50000; n++)
                    mine.push_back(std::make_unique<std::string>(n % 97, char('a' + t)));
            });
        for (auto &thread : threads) thread.join();
    }
    std::size_t bytes = 0;
    for (const auto &list : made)
        for (const auto &item : list) bytes += item->size();
    std::cout << bytes << " bytes\n";

    std::unordered_map<int, std::string> table;
    for (int n = 0; n < 100000; n++) table[n * 7919] = std::to_string(n);
    for (int n = 0; n < 100000; n += 2) table.erase(n * 7919);
    std::cout << table.size() << " entries\n";
    try {
        throw std::runtime_error(std::string(5000, 'x'));
    } catch (const std::exception &error) {
        std::cout << std::string(error.what()).size() << " caught\n";
    }
}
