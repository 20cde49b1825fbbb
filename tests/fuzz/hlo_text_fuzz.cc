// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "runtime/ir/text/text.h"

// Whatever the bytes: no crash, an error that names a place, or a module that survives its own
// text.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace plimsoll;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto module = ir::parse_module(text, "fuzz");
  const auto fail = [](const char* what, const std::string& detail) {
    std::fprintf(stderr, "%s\n%s\n", what, detail.c_str());
    std::abort();
  };
  if (!module.ok()) {
    const bool is_known = module.status().code() == StatusCode::invalid_argument ||
                          module.status().code() == StatusCode::unimplemented;
    if (!is_known || !module.status().message().starts_with("fuzz:")) {
      fail("an error without a place:", module.status().to_string());
    }
    return 0;
  }
  const std::string printed = ir::to_text(**module);
  const auto again = ir::parse_module(printed, "printed");
  if (!again.ok()) fail(again.status().message().c_str(), printed);
  if (ir::to_text(**again) != printed) fail("the text is not stable:", printed);
  return 0;
}
