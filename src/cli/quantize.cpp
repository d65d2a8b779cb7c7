// SPDX-License-Identifier: MIT
// nibble quantize: another file of the same model, its matrices in another format. Vectors (norms, biases)
// stay as they are; a matrix whose rows are no whole number of blocks takes the smallest format that fits
// them and has no fewer bits. The new file appears whole or not at all, and may replace its own source.
#include <algorithm>
#include <chrono>
#include <map>
#include <tuple>

#include "cli/common.hpp"
#include "nibble/core/parallel.hpp"
#include "nibble/core/thread_pool.hpp"
#include "nibble/io/gguf_writer.hpp"
#include "nibble/quant/rtn.hpp"

namespace nibble::cli {

namespace {

std::string lower(std::string_view name) {
  std::string s(name);
  for (char& c : s)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return s;
}

/// What llama.cpp's files say in general.file_type for a model of this format.
std::optional<std::uint32_t> file_type(std::string_view format) {
  static const std::map<std::string_view, std::uint32_t> types = {
      {"f32", 0},   {"f16", 1},   {"q4_0", 2},  {"q4_1", 3},  {"q8_0", 7},    {"q5_0", 8},    {"q5_1", 9}, {"q2_k", 10},
      {"q3_k", 11}, {"q4_k", 14}, {"q5_k", 16}, {"q6_k", 18}, {"iq4_nl", 25}, {"iq4_xs", 30}, {"bf16", 32}};
  const auto found = types.find(format);
  return found == types.end() ? std::nullopt : std::optional(found->second);
}

/// What becomes of one tensor, and why when it is not what was asked for. No target: its bytes are copied.
struct Plan {
  StoredTensor tensor;
  const FormatInfo* source = nullptr;
  const FormatInfo* target = nullptr;
  std::string note;
};

const FormatInfo* smallest_that_fits(const FormatInfo& wanted, Index cols) {
  const FormatInfo* best = nullptr;
  for (const FormatInfo* f : all_formats()) {
    if (!f->has_encode() || f->gguf_type == no_gguf_type || cols % f->block_size != 0) continue;
    if (f->bits_per_weight() < wanted.bits_per_weight()) continue;
    if (best == nullptr || f->bits_per_weight() < best->bits_per_weight()) best = f;
  }
  return best;
}

Plan plan_for(const StoredTensor& t, const FormatInfo& type, const FormatInfo& embedding) {
  Plan plan{t, find_format_by_gguf(t.gguf_type()), nullptr, {}};
  if (t.rank < 2 || t.rows() == 1) {
    plan.note = "vector";
    return plan;
  }
  if (plan.source == nullptr) {
    plan.note = "no decoder for " + lower(t.type->name);
    return plan;
  }
  const FormatInfo& wanted = t.name == "token_embd.weight" || t.name == "output.weight" ? embedding : type;
  plan.target = &wanted;
  if (t.cols() % wanted.block_size != 0) {
    plan.target = smallest_that_fits(wanted, t.cols());
    plan.note = "rows of " + std::to_string(t.cols()) + " are no whole number of " +
                std::string(wanted.name) + " blocks";
  }
  if (plan.target == plan.source) {
    plan.target = nullptr;
    plan.note = "already " + std::string(plan.source->name);
  }
  return plan;
}

/// Decodes and encodes some rows at a time, each row on any worker; rows are independent of each other.
void convert(const Plan& plan, ExecutorRef executor, const std::stop_token& stop, ByteSink& sink) {
  const QuantizedView source =
      QuantizedView::from_blocks(*plan.source, plan.tensor.rows(), plan.tensor.cols(), plan.tensor.bytes);
  const Index at_once = std::max<Index>(1, (Index{1} << 20) / source.cols());
  for (Index begin = 0; begin < source.rows(); begin += at_once) {
    throw_if_stopped(stop, "quantization");
    const Index count = std::min(at_once, source.rows() - begin);
    Matrix<float> values({count, source.cols()});
    QuantizedTensor encoded(*plan.target, count, source.cols());
    parallel_for(executor, count, std::max<Index>(1, count / 16), [&](Index first, Index last, Index) {
      for (Index r = first; r < last; ++r) source.decode_row(begin + r, values.view().row(r));
      quant::encode_rows(values.view(), {}, encoded, first, last);
    });
    sink.write(encoded.view().data());
  }
}

void note_requantization(const std::vector<Plan>& plans) {
  std::map<std::string, int> types;
  int count = 0;
  for (const Plan& p : plans) {
    if (p.target == nullptr || p.source->dense) continue;
    ++types[std::string(p.source->name)];
    ++count;
  }
  if (count == 0) return;
  std::string names;
  for (const auto& [name, n] : types) names += (names.empty() ? "" : ", ") + name;
  note(std::to_string(count) + " tensors are quantized already (" + names +
       "); their error adds to the new one. Start from an f16 or f32 file for the best result.");
}

Report report_of(const QuantizeOptions& o, const std::vector<Plan>& plans, const GgufWeightSource& source,
                 double seconds) {
  const GgufFile written = GgufFile::open(o.out);
  Report report;
  report.add("file", o.out).add("type", o.type).add("file_bytes", written.file_bytes());
  report.add("source_bytes", source.file().file_bytes());
  report.add("bits_per_weight", bits_per_weight(written)).add("source_bits_per_weight", bits_per_weight(source.file()));
  report.add("seconds", seconds);
  std::map<std::tuple<std::string, std::string, std::string>, Index> kinds;
  for (const Plan& p : plans) {
    const std::string from = lower(p.tensor.type->name);
    ++kinds[{from, p.target == nullptr ? from : std::string(p.target->name), p.note}];
  }
  ReportTable& changes = report.table("changes", {"from", "to", "tensors", "note"});
  for (const auto& [kind, count] : kinds) {
    const auto& [from, to, why] = kind;
    changes.add({from, to, count, why.empty() ? ReportValue() : ReportValue(why)});
  }
  if (!o.details && o.format != ReportFormat::json) return report;
  ReportTable& tensors = report.table("tensors", {"name", "from", "to", "note"});
  for (const Plan& p : plans) {
    const std::string from = lower(p.tensor.type->name);
    tensors.add({p.tensor.name, from, p.target == nullptr ? from : std::string(p.target->name),
                 p.note.empty() ? ReportValue() : ReportValue(p.note)});
  }
  return report;
}

/// The embedding and the head keep 8 bits unless told otherwise: nothing after them averages their rounding out.
const FormatInfo& embedding_format(const QuantizeOptions& o, const FormatInfo& type) {
  if (!o.embedding.empty()) return *find_format(o.embedding);
  const FormatInfo& eight = *find_format("q8_0");
  return type.bits_per_weight() < eight.bits_per_weight() ? eight : type;
}

}  // namespace

int quantize(const QuantizeOptions& o) {
  const FormatInfo& type = *find_format(o.type);
  const FormatInfo& embedding = embedding_format(o, type);
  const Interrupt interrupt;
  const auto source = GgufWeightSource::open(o.in);
  ThreadPool pool(o.threads);
  const ExecutorRef executor(pool);
  std::vector<Plan> plans;
  for (const std::string_view name : source.names()) plans.push_back(plan_for(source.require(name), type, embedding));
  note_requantization(plans);

  GgufWriter writer;
  writer.metadata().copy(source.metadata());
  if (const auto id = file_type(type.name)) writer.metadata().set("general.file_type", *id);
  else writer.metadata().erase("general.file_type");
  writer.metadata().set("general.quantization_version", std::uint32_t{2});
  for (const Plan& p : plans) {
    if (p.target == nullptr) {
      writer.add_tensor(p.tensor);
      continue;
    }
    writer.add_tensor(std::string(p.tensor.name), p.tensor.shape(), p.target->gguf_type, [&](ByteSink& sink) {
      try {
        convert(p, executor, interrupt.token(), sink);
      } catch (const Error& e) {
        throw e.in("tensor " + std::string(p.tensor.name));
      }
      source.release(p.tensor.name);
    });
  }
  ProgressBar bar("quantize");
  const auto start = std::chrono::steady_clock::now();
  writer.write(o.out, {.stop = interrupt.token(),
                       .progress = [&](long long done, long long total, std::string_view what) {
                         bar.update(done, total, what);
                       }});
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  write_out(report_of(o, plans, source, seconds).render(o.format));
  return exit_ok;
}

}  // namespace nibble::cli
