// SPDX-License-Identifier: MIT
// nibble generate: continues a prompt. The text goes to stdout as it is made; rates go to stderr.
#include <utility>

#include "cli/common.hpp"

namespace nibble::cli {

namespace {

double rate(Index tokens, double seconds) { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }

Report report_of(const GenerateResult& r) {
  ReportValue::List ids(r.tokens.begin(), r.tokens.end());
  Report report;
  report.add("text", r.text).add("ids", std::move(ids)).add("finish", to_string(r.finish));
  report.add("prompt_tokens", r.prompt_tokens).add("generated_tokens", r.tokens.size());
  report.add("prefill_tokens_per_s", rate(r.prompt_tokens, r.prefill_seconds));
  report.add("decode_tokens_per_s", rate(static_cast<Index>(r.tokens.size()), r.decode_seconds));
  return report;
}

}  // namespace

int generate(const GenerateOptions& o) {
  const GeneratorOptions options = generator_options(o.sampling, o.compute);
  const std::string prompt = o.file.empty() ? o.prompt : read_text(o.file);
  const Interrupt interrupt;
  Model::Context context(context_options(o.compute, Numerics::fast));
  const Model model = Model::load(context, o.model, {.stop = interrupt.token()});
  const std::vector<Token> tokens = model.tokenizer().encode(prompt, {.parse_special = o.special});
  Generator generator(model, context, options);
  // Only the plain listing streams: JSON and Markdown are one document.
  const bool stream = o.format == ReportFormat::table;
  std::string start = prompt;  // shown with the first token: a prompt that is refused leaves stdout empty
  const TextCallback print = [&start](std::string_view text, Token) {
    write_out(std::exchange(start, {}) + std::string(text));
    return true;
  };
  const GenerateResult r = generator.generate(tokens, stream ? print : TextCallback{}, interrupt.token());
  if (!stream) {
    write_out(report_of(r).render(o.format));
  } else {
    write_out(start + "\n");
    if (!o.quiet)
      note(std::to_string(r.prompt_tokens) + " prompt tokens at " +
           ReportValue(rate(r.prompt_tokens, r.prefill_seconds)).to_text() + "/s, " +
           std::to_string(r.tokens.size()) + " new at " +
           ReportValue(rate(static_cast<Index>(r.tokens.size()), r.decode_seconds)).to_text() +
           "/s, finish: " + std::string(to_string(r.finish)));
  }
  return interrupt.requested() ? exit_interrupted : exit_ok;
}

}  // namespace nibble::cli
