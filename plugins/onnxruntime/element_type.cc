// SPDX-License-Identifier: Apache-2.0
#include "plugins/onnxruntime/element_type.h"

namespace plimsoll::ort {

std::optional<plm_dtype> dtype_of(int element_type) {
  switch (element_type) {
    case 1:
      return PLM_F32;
    case 2:
      return PLM_U8;
    case 3:
      return PLM_S8;
    case 4:
      return PLM_U16;
    case 5:
      return PLM_S16;
    case 6:
      return PLM_S32;
    case 7:
      return PLM_S64;
    case 9:
      return PLM_PRED;
    case 10:
      return PLM_F16;
    case 11:
      return PLM_F64;
    case 12:
      return PLM_U32;
    case 13:
      return PLM_U64;
    case 14:
      return PLM_C64;
    case 15:
      return PLM_C128;
    case 16:
      return PLM_BF16;
    case 17:
      return PLM_F8E4M3FN;
    case 18:
      return PLM_F8E4M3FNUZ;
    case 19:
      return PLM_F8E5M2;
    case 20:
      return PLM_F8E5M2FNUZ;
    case 21:
      return PLM_U4;
    case 22:
      return PLM_S4;
    default:
      return std::nullopt;
  }
}

}  // namespace plimsoll::ort
