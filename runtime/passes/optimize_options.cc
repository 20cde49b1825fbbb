// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/passes.h"

namespace plimsoll::passes {

std::string_view to_string(Residuals residuals) {
  switch (residuals) {
    case Residuals::stacked:
      return "stacked";
    case Residuals::cheaper:
      return "cheaper";
    case Residuals::elementwise:
      return "elementwise";
    case Residuals::products:
      return "products";
    case Residuals::carried:
      return "carried";
    case Residuals::segments:
      return "segments";
  }
  return "?";
}

std::string_view to_string(Fusion fusion) {
  switch (fusion) {
    case Fusion::full:
      return "full";
    case Fusion::vertical:
      return "vertical";
    case Fusion::narrow:
      return "narrow";
    case Fusion::none:
      return "none";
    case Fusion::as_written:
      return "as written";
  }
  return "?";
}

}  // namespace plimsoll::passes
