// SPDX-License-Identifier: MIT
#include "onednn/dense.hpp"

#include <array>
#include <dnnl.hpp>
#include <optional>
#include <string>

#include "nibble/core/error.hpp"

extern "C" {  // of the OpenMP run-time that oneDNN brings along; its header needs the compiler's OpenMP mode
int omp_get_max_threads(void);
void omp_set_num_threads(int);
}

namespace nibble::onednn {

namespace {

using Dims = std::array<Index, 6>;

/// The calling thread's own number of OpenMP threads, put back afterwards: the thread may be the host's.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

const dnnl::engine& engine() {
  static const dnnl::engine one(dnnl::engine::kind::cpu, 0);
  return one;
}

/// A thread's last primitive: the panels of a layer all ask for the same. oneDNN keeps the compiled code of others.
struct Product {
  Dims dims{};
  std::optional<dnnl::matmul::primitive_desc> desc;
  dnnl::matmul primitive{};
  dnnl::stream stream{engine()};

  void prepare(const Dims& wanted) {
    if (desc && dims == wanted) return;
    const auto [m, n, k, a_stride, b_stride, c_stride] = wanted;
    const auto f32 = dnnl::memory::data_type::f32;
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    desc.reset();
    desc.emplace(engine(), dnnl::memory::desc({m, k}, f32, dnnl::memory::dims{a_stride, 1}),
                 dnnl::memory::desc({k, n}, f32, dnnl::memory::dims{b_stride, 1}),
                 dnnl::memory::desc({m, n}, f32, dnnl::memory::dims{c_stride, 1}), attributes);
    primitive = dnnl::matmul(*desc);
    dims = wanted;
  }
};

}  // namespace

void product(const float* a, Index a_stride, const float* b, Index b_stride, float* c, Index c_stride, Index m, Index n,
             Index k, Arena& scratch) {
  const OneThread one;
  try {
    thread_local Product last;
    last.prepare({m, n, k, a_stride, b_stride, c_stride});
    const ArenaScope own(scratch);
    const auto memory = [](const dnnl::memory::desc& d, const float* p) {
      return dnnl::memory(d, engine(), const_cast<float*>(p));
    };
    const auto bytes = static_cast<Index>(last.desc->scratchpad_desc().get_size());
    last.primitive.execute(last.stream,
                           {{DNNL_ARG_SRC, memory(last.desc->src_desc(), a)},
                            {DNNL_ARG_WEIGHTS, memory(last.desc->weights_desc(), b)},
                            {DNNL_ARG_DST, memory(last.desc->dst_desc(), c)},
                            {DNNL_ARG_SCRATCHPAD, dnnl::memory(last.desc->scratchpad_desc(), engine(),
                                                               scratch.take<std::byte>(bytes).data())}});
    last.stream.wait();
  } catch (const dnnl::error& e) {
    throw Error(Errc::internal, std::string("oneDNN: ") + e.what());
  }
}

}  // namespace nibble::onednn
