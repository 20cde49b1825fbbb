// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target without libFuzzer: replays files, then mutates them for some time.
//   hlo_text_fuzz_replay [--seconds N] [--seed N] FILE...
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void run(const std::string& text) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
}

std::string mutate(std::string text, const std::vector<std::string>& corpus,
                   std::mt19937_64& random) {
  static constexpr char kAlphabet[] = "{}[]()=,%#:<>-\"/* \n0129abfsTROx_.";
  const auto pick = [&](std::size_t count) { return static_cast<std::size_t>(random() % count); };
  for (std::size_t edits = 1 + pick(6); edits > 0; --edits) {
    if (text.empty()) text = "x";
    const std::size_t at = pick(text.size());
    const std::string& other = corpus[pick(corpus.size())];
    switch (pick(5)) {
      case 0:
        text[at] = kAlphabet[pick(sizeof kAlphabet - 1)];
        break;
      case 1:
        text.erase(at, 1 + pick(16));
        break;
      case 2:
        text.insert(at, 1, static_cast<char>(pick(256)));
        break;
      case 3:
        text.insert(at, text.substr(pick(text.size()), pick(60)));
        break;
      default:
        if (!other.empty()) text.insert(at, other.substr(pick(other.size()), pick(60)));
        break;
    }
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 0;
  std::uint64_t seed = 1;
  std::vector<std::string> corpus;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--seconds") == 0 && i + 1 < argc) {
      seconds = std::atof(argv[++i]);
    } else if (std::strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else {
      std::ifstream file(argv[i], std::ios::binary);
      if (!file) {
        std::fprintf(stderr, "%s: cannot be read\n", argv[i]);
        return 2;
      }
      corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "usage: %s [--seconds N] [--seed N] FILE...\n", argv[0]);
    return 2;
  }
  for (const std::string& text : corpus) run(text);
  std::mt19937_64 random(seed);
  const auto start = std::chrono::steady_clock::now();
  std::int64_t rounds = 0;
  while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() <
         seconds) {
    run(mutate(corpus[random() % corpus.size()], corpus, random));
    ++rounds;
  }
  std::printf("%zu files, %lld mutations\n", corpus.size(), static_cast<long long>(rounds));
  return 0;
}
