// SPDX-License-Identifier: MIT
// nibble tokenize: text to token ids, and what each of them spells.
#include "cli/common.hpp"
#include "nibble/model/load_tokenizer.hpp"

namespace nibble::cli {

int tokenize(const TokenizeOptions& o) {
  const Tokenizer tokenizer = load_tokenizer(GgufFile::open(o.model).metadata());
  const std::string text = o.file.empty() ? o.text : read_text(o.file);
  const std::vector<Token> ids = tokenizer.encode(text, {.add_special = !o.plain, .parse_special = o.special});
  if (o.format == ReportFormat::json) {
    ReportValue::List numbers, spellings;
    for (const Token t : ids) {
      numbers.emplace_back(t);
      spellings.emplace_back(tokenizer.token_bytes(t));
    }
    Report report;
    report.add("ids", std::move(numbers)).add("tokens", std::move(spellings));
    write_out(report.render(o.format));
    return exit_ok;
  }
  Report report;
  ReportTable& table = report.table("tokens", {"id", "token"});
  for (const Token t : ids) table.add({t, "'" + tokenizer.token_bytes(t) + "'"});
  write_out(report.render(o.format));
  return exit_ok;
}

}  // namespace nibble::cli
