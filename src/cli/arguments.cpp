// SPDX-License-Identifier: MIT
#include "cli/arguments.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/commands.hpp"
#include "nibble/backend/cpu.hpp"
#include "nibble/core/build_info.hpp"
#include "nibble/format/formats.hpp"

namespace nibble::cli {

namespace {

struct Command {
  CLI::App* app;
  std::function<int()> run;
};

const CLI::Range any_count(Index{0}, Index{1} << 30);

std::string isa_names(const char* separator) {
  std::string names;
  for (const cpu::Isa isa : cpu::available_isas())
    names += (names.empty() ? "" : separator) + std::string(cpu::to_string(isa));
  return names;
}

std::string check_isa(const std::string& name) {
  const auto isa = cpu::parse_isa(name);
  const auto available = cpu::available_isas();
  if (isa && std::find(available.begin(), available.end(), *isa) != available.end()) return {};
  return "'" + name + "' is not available here; there are " + isa_names(", ");
}

/// The formats that can be written, hence quantized to.
std::vector<std::string> encodable_names() {
  std::vector<std::string> names;
  for (const FormatInfo* f : all_formats())
    if (f->has_encode() && f->gguf_type != no_gguf_type) names.emplace_back(f->name);
  return names;
}

void add_model(CLI::App& app, std::string& model) { app.add_option("MODEL", model, "a GGUF file")->required(); }

void add_threads(CLI::App& app, Index& threads) {
  app.add_option("-t,--threads", threads, "threads to use; 0 = every processor")->check(CLI::Range(0, 1024));
}

void add_compute(CLI::App& app, ComputeOptions& o) {
  add_threads(app, o.threads);
  app.add_option("--isa", o.isa, "highest instruction set to use, here one of: " + isa_names(", "))
      ->check(CLI::Validator(check_isa, "ISA"));
  CLI::Option* exact = app.add_flag("--exact", o.exact, "multiply 32-bit activations: the yardstick of evaluation");
  app.add_flag("--fast", o.fast, "multiply activations rounded to 8 bits in small groups")->excludes(exact);
  app.add_option("--kv", o.kv, "type of keys and values: f16 unless the command needs f32")
      ->check(CLI::IsMember({"f32", "f16", "i8"}));
}

void add_sampling(CLI::App& app, SamplingOptions& o) {
  app.add_option("-n,--max-tokens", o.max_tokens, "new tokens; -1 = no limit")
      ->check(CLI::Range(Index{-1}, Index{1} << 30));
  app.add_option("--temperature", o.sampler.temperature, "0 = always the likeliest token")->capture_default_str();
  app.add_option("--top-k", o.sampler.top_k, "the k likeliest tokens; 0 = off");
  app.add_option("--top-p", o.sampler.top_p, "the likeliest tokens that together reach p; 1 = off")
      ->capture_default_str();
  app.add_option("--min-p", o.sampler.min_p, "tokens at least this fraction as likely as the likeliest; 0 = off");
  app.add_option("--repetition-penalty", o.sampler.repetition_penalty, "1 = off");
  app.add_option("--frequency-penalty", o.sampler.frequency_penalty, "0 = off");
  app.add_option("--presence-penalty", o.sampler.presence_penalty, "0 = off");
  app.add_option("--penalty-window", o.sampler.penalty_window, "last tokens that the penalties see; -1 = all");
  app.add_option("--seed", o.sampler.seed, "of the random numbers: equal seeds give equal texts");
  app.add_option("--stop", o.stop_strings, "end before this text; may be repeated")->expected(1)->take_all();
  app.add_option("--ctx", o.ctx, "tokens the sequence can hold; 0 = what the model was trained for")->check(any_count);
}

void add_format(CLI::App& app, ReportFormat& format) {
  app.add_option_function<std::string>(
         "--format", [&format](const std::string& name) { format = parse_report_format(name).value(); },
         "table, json or md")
      ->check(CLI::IsMember({"table", "json", "md"}))
      ->default_str("table");
}

Command add_inspect(CLI::App& app) {
  auto o = std::make_shared<InspectOptions>();
  CLI::App* c = app.add_subcommand("inspect", "Metadata, tensors, types and memory of a model file");
  add_model(*c, o->model);
  c->add_option("--ctx", o->ctx, "tokens to plan memory for; 0 = what the model was trained for")->check(any_count);
  add_format(*c, o->format);
  return {c, [o] { return inspect(*o); }};
}

Command add_quantize(CLI::App& app) {
  auto o = std::make_shared<QuantizeOptions>();
  CLI::App* c = app.add_subcommand("quantize", "Write a model's matrices in another format");
  c->add_option("IN", o->in, "a GGUF file")->required();
  c->add_option("OUT", o->out, "the file to write")->required();
  const CLI::IsMember known(encodable_names(), CLI::ignore_case);
  c->add_option("--type", o->type, "format of the matrices")->required()->check(known);
  c->add_option("--embedding", o->embedding,
                "format of token_embd.weight and output.weight; q8_0 where TYPE is smaller")
      ->check(known);
  c->add_flag("--details", o->details, "list every tensor (JSON always does)");
  add_threads(*c, o->threads);
  add_format(*c, o->format);
  return {c, [o] { return quantize(*o); }};
}

Command add_eval(CLI::App& app) {
  auto o = std::make_shared<EvalCommandOptions>();
  CLI::App* c = app.add_subcommand("eval", "Perplexity, and divergence from a reference model");
  add_model(*c, o->model);
  c->add_option("--text", o->text, "a text file; - = standard input")->required();
  c->add_option("--ctx", o->ctx, "tokens per chunk, scored on the second half")
      ->check(CLI::Range(4, 1 << 20))
      ->capture_default_str();
  c->add_option("--chunks", o->chunks, "chunks to evaluate; 0 = all that the text fills")->check(any_count);
  c->add_option("--reference", o->reference, "a GGUF file to compare with, always evaluated exactly");
  c->add_flag("--details", o->details, "list every tensor's error (JSON always does)");
  add_compute(*c, o->compute);
  add_format(*c, o->format);
  return {c, [o] { return evaluate(*o); }};
}

Command add_generate(CLI::App& app) {
  auto o = std::make_shared<GenerateOptions>();
  o->sampling.max_tokens = 128;
  o->sampling.sampler.temperature = 0.8;
  CLI::App* c = app.add_subcommand("generate", "Continue a prompt");
  add_model(*c, o->model);
  auto* source = c->add_option_group("prompt");
  source->add_option("-p,--prompt", o->prompt, "the text to continue");
  source->add_option("--file", o->file, "a file with the text; - = standard input");
  source->require_option(1);
  c->add_flag("--special", o->special, "read special tokens (<|im_end|>) in the prompt as such");
  c->add_flag("-q,--quiet", o->quiet, "no rates on stderr");
  add_sampling(*c, o->sampling);
  add_compute(*c, o->compute);
  add_format(*c, o->format);
  return {c, [o] { return generate(*o); }};
}

Command add_chat(CLI::App& app) {
  auto o = std::make_shared<ChatOptions>();
  o->sampling.sampler.temperature = 0.7;
  o->sampling.sampler.top_p = 0.95;
  CLI::App* c = app.add_subcommand("chat", "Talk to a model through its own chat template");
  add_model(*c, o->model);
  c->add_option("--system", o->system, "the system message");
  add_sampling(*c, o->sampling);
  add_compute(*c, o->compute);
  return {c, [o] { return chat(*o); }};
}

Command add_tokenize(CLI::App& app) {
  auto o = std::make_shared<TokenizeOptions>();
  CLI::App* c = app.add_subcommand("tokenize", "Token ids of a text");
  add_model(*c, o->model);
  auto* source = c->add_option_group("text");
  source->add_option("--text", o->text, "the text");
  source->add_option("--file", o->file, "a file with the text; - = standard input");
  source->require_option(1);
  c->add_flag("--special", o->special, "read special tokens (<|im_end|>) as such, not as plain text");
  c->add_flag("--plain", o->plain, "without the tokens that the model wants around a text");
  add_format(*c, o->format);
  return {c, [o] { return tokenize(*o); }};
}

Command add_bench(CLI::App& app) {
  auto o = std::make_shared<BenchOptions>();
  CLI::App* c = app.add_subcommand("bench", "Prefill and decode speed, load time and peak memory");
  const CLI::Range tokens(0, 1 << 20);
  add_model(*c, o->model);
  c->add_option("-p,--prompt-tokens", o->prompt, "tokens of the prefill; 0 = none")
      ->check(tokens)
      ->capture_default_str();
  c->add_option("-n,--decode-tokens", o->decode, "tokens decoded one by one; 0 = none")
      ->check(tokens)
      ->capture_default_str();
  c->add_option("-d,--depth", o->depth, "tokens that are in the cache before those decoded")
      ->check(tokens)
      ->capture_default_str();
  c->add_option("-r,--repetitions", o->repetitions, "the best one is reported, and the mean")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  add_compute(*c, o->compute);
  add_format(*c, o->format);
  return {c, [o] { return bench(*o); }};
}

}  // namespace

std::function<int()> parse_arguments(int argc, char** argv) {
  CLI::App app{"Quantize, measure and run transformers.", "nibble"};
  app.set_version_flag("--version", [] { return build_info() + "\ninstruction sets here: " + isa_names(" "); });
  app.set_help_all_flag("--help-all", "help of every command");
  app.require_subcommand(1);
  const std::vector<Command> commands = {add_inspect(app), add_quantize(app), add_eval(app), add_generate(app),
                                         add_chat(app),    add_tokenize(app), add_bench(app)};
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() != 0) throw UsageError(std::string(e.what()) + " (see nibble --help)");
    app.exit(e);  // prints help or the version
    return [] { return exit_ok; };
  }
  for (const Command& c : commands)
    if (c.app->parsed()) return c.run;
  throw UsageError("no command given (see nibble --help)");
}

}  // namespace nibble::cli
