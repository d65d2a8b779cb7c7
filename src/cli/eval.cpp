// SPDX-License-Identifier: MIT
// nibble eval: perplexity of a text; with a reference also divergence, agreement and where the error is.
#include "cli/common.hpp"
#include "nibble/eval/perplexity.hpp"

namespace nibble::cli {

namespace {

void add_errors(Report& report, const EvalCommandOptions& o, const ComparisonResult& r) {
  ReportTable& layers = report.table("layers", {"layer", "relative_rms", "cosine"});
  for (const LayerError& e : r.layers) layers.add({e.layer, e.relative_rms, e.cosine});
  if (!o.details && o.format != ReportFormat::json) return;
  const auto mine = GgufWeightSource::open(o.model), theirs = GgufWeightSource::open(o.reference);
  ReportTable& tensors = report.table("tensors", {"name", "reference_type", "type", "relative_rms"});
  for (const TensorError& e : weight_errors(theirs, mine)) {
    if (e.relative_rms > 0) tensors.add({e.name, e.reference_type, e.type, e.relative_rms});
  }
}

}  // namespace

int evaluate(const EvalCommandOptions& o) {
  const Interrupt interrupt;
  Model::Context context(context_options(o.compute, Numerics::exact, interrupt.token()));
  const Model model = Model::load(context, o.model, {.stop = interrupt.token()});
  const EvalText text = eval_text(model.tokenizer(), read_text(o.text));
  ProgressBar bar("evaluate");
  EvalOptions options{.ctx = o.ctx, .chunks = o.chunks, .numerics = context.numerics(), .stop = interrupt.token()};
  options.progress = [&](long long done, long long total, std::string_view what) { bar.update(done, total, what); };
  options.kv_dtype = kv_dtype(o.compute, options.numerics == Numerics::fast ? DType::f16 : DType::f32);

  ComparisonResult r;
  if (o.reference.empty()) {
    r.model = perplexity(model, context, text, options);
  } else {
    const Model reference = Model::load(context, o.reference, {.stop = interrupt.token(), .tokenizer = false});
    r = compare(model, reference, context, text, options);
  }
  const bool compared = !o.reference.empty();
  const auto if_compared = [&](double v) { return compared ? ReportValue(v) : ReportValue(); };
  const GgufFile file = GgufFile::open(o.model);
  Report report;
  report.add("perplexity", r.model.perplexity).add("perplexity_stderr", r.model.perplexity_stderr);
  report.add("mean_kl", if_compared(r.mean_kl)).add("mean_kl_stderr", if_compared(r.mean_kl_stderr));
  report.add("top1_agreement", if_compared(r.top1_agreement));
  report.add("bits_per_weight", bits_per_weight(file)).add("file_bytes", file.file_bytes());
  report.add("tokens", r.model.tokens).add("chunks", r.model.chunks);
  report.add("numerics", options.numerics == Numerics::exact ? "exact" : "fast");
  if (compared) {
    report.add("reference_perplexity", r.reference.perplexity);
    report.add("reference_perplexity_stderr", r.reference.perplexity_stderr);
    add_errors(report, o, r);
  }
  write_out(report.render(o.format));
  return exit_ok;
}

}  // namespace nibble::cli
