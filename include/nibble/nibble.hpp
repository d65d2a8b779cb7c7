// SPDX-License-Identifier: MIT
// Everything, for applications. Library headers never include this one; code that wants to compile faster
// includes the headers it uses, and offline quantization needs nibble/quantize.hpp alone.
#pragma once

#include "nibble/config.hpp"

// what: numbers, files, text
#include "nibble/core/build_info.hpp"
#include "nibble/core/error.hpp"
#include "nibble/core/executor.hpp"
#include "nibble/core/log.hpp"
#include "nibble/core/random.hpp"
#include "nibble/core/result.hpp"
#include "nibble/core/tensor.hpp"
#include "nibble/core/thread_pool.hpp"
#include "nibble/io/gguf.hpp"
#include "nibble/io/gguf_writer.hpp"
#include "nibble/io/weight_sink.hpp"
#include "nibble/io/weight_source.hpp"
#include "nibble/quantize.hpp"
#include "nibble/text/chat_template.hpp"
#include "nibble/text/token_stream.hpp"
#include "nibble/text/tokenizer.hpp"
#include "nibble/text/unicode.hpp"

// where it runs, and how
#include "nibble/backend/context.hpp"
#include "nibble/backend/cpu.hpp"
#include "nibble/backend/machine_rates.hpp"
#include "nibble/cache/sequence_state.hpp"
#include "nibble/dist/communicator.hpp"
#include "nibble/layers/decoder_block.hpp"
#include "nibble/model/arch.hpp"
#include "nibble/model/load_tokenizer.hpp"
#include "nibble/model/model.hpp"
#include "nibble/ops/embedding.hpp"
#include "nibble/ops/softmax.hpp"

// what to do with it
#include "nibble/eval/layer_error.hpp"
#include "nibble/eval/perplexity.hpp"
#include "nibble/eval/profile.hpp"
#include "nibble/eval/report.hpp"
#include "nibble/runtime/chat.hpp"
#include "nibble/runtime/generator.hpp"
#include "nibble/runtime/score.hpp"
