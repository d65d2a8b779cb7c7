// SPDX-License-Identifier: MIT
// The commands of the program: their options as the command line gives them, and their bodies, which return
// an exit code. Text goes to stdout, all else to stderr.
#pragma once

#include <string>
#include <vector>

#include "nibble/eval/report.hpp"
#include "nibble/runtime/sampler.hpp"

namespace nibble::cli {

inline constexpr int exit_ok = 0, exit_error = 1, exit_usage = 2, exit_interrupted = 130;

struct ComputeOptions {
  Index threads = 0;
  std::string isa;
  bool exact = false, fast = false;
  std::string kv;  ///< type of keys and values; empty: the command's own
};

struct SamplingOptions {
  SamplerOptions sampler{};
  Index max_tokens = -1;
  std::vector<std::string> stop_strings{};
  Index ctx = 0;
};

struct InspectOptions {
  std::string model;
  Index ctx = 0;
  ReportFormat format = ReportFormat::table;
};
int inspect(const InspectOptions& options);

struct QuantizeOptions {
  std::string in, out, type, embedding;
  Index threads = 0;
  bool details = false;
  ReportFormat format = ReportFormat::table;
};
int quantize(const QuantizeOptions& options);

struct EvalCommandOptions {
  std::string model, text, reference;
  Index ctx = 512, chunks = 0;
  bool details = false;
  ComputeOptions compute{};
  ReportFormat format = ReportFormat::table;
};
int evaluate(const EvalCommandOptions& options);

struct GenerateOptions {
  std::string model, prompt, file;
  bool special = false, quiet = false;
  ComputeOptions compute{};
  SamplingOptions sampling{};
  ReportFormat format = ReportFormat::table;
};
int generate(const GenerateOptions& options);

struct ChatOptions {
  std::string model, system;
  ComputeOptions compute{};
  SamplingOptions sampling{};
};
int chat(const ChatOptions& options);

struct TokenizeOptions {
  std::string model, text, file;
  bool special = false, plain = false;
  ReportFormat format = ReportFormat::table;
};
int tokenize(const TokenizeOptions& options);

struct BenchOptions {
  std::string model;
  Index prompt = 512, decode = 64, depth = 0, repetitions = 3;
  ComputeOptions compute{};
  ReportFormat format = ReportFormat::table;
};
int bench(const BenchOptions& options);

}  // namespace nibble::cli
