// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "examples/serve/host_budget.h"
#include "examples/serve/model.h"

namespace plimsoll::examples::serve {

struct InferResponse {
  std::string body;
  std::size_t json_bytes = 0;  // of the body; 0: all, there are no binary data behind it
};

// The body that answers a request with these outputs; `lease` grows by what it may take. Throws
// HttpError: 400 where an element has no form in JSON, 503 where there is no room.
InferResponse write_infer_response(const Model& model, const std::string& id,
                                   const std::vector<InferOutput>& outputs,
                                   HostBudget::Lease& lease);

}  // namespace plimsoll::examples::serve
