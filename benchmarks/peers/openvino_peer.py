# SPDX-License-Identifier: MIT
"""One run of OpenVINO GenAI on the same GGUF file; see worker.py. Prompts are random token ids, new ones every time:
its prefix cache makes a repeated prompt meaningless. Prefill is the time to the first token, decoding the mean
time per further token, both by its own measurement."""
import random

import worker


class OpenVino:
    def __init__(self, options):
        import openvino
        import openvino_genai
        self.openvino, self.genai = openvino, openvino_genai
        self.info = f"openvino-genai {openvino_genai.__version__}"
        try:
            self.pipeline = openvino_genai.LLMPipeline(options.model, "CPU", INFERENCE_NUM_THREADS=options.t)
        except Exception as error:  # whatever its reader raises for a file that it does not know
            raise worker.CannotLoad(str(error).strip().splitlines()[-1]) from error
        self.vocabulary = 10000  # ids below it are in every vocabulary at hand

    def generate(self, prompt, new):
        import numpy as np
        ids = np.array([[random.randrange(100, self.vocabulary) for _ in range(prompt)]], dtype=np.int64)
        inputs = self.genai.TokenizedInputs(self.openvino.Tensor(ids), self.openvino.Tensor(np.ones_like(ids)))
        config = self.genai.GenerationConfig()
        config.max_new_tokens, config.min_new_tokens, config.ignore_eos = new, new, True
        config.do_sample = False
        return self.pipeline.generate(inputs, config).perf_metrics

    def prefill(self, count):
        return self.generate(count, 1).get_ttft().mean / 1e3

    def decode(self, count):
        return self.generate(1, count + 1).get_tpot().mean / 1e3 * count


if __name__ == "__main__":
    worker.main(OpenVino)
