// SPDX-License-Identifier: Apache-2.0
// The recording driver's modules, launches and graphs.
#include <cstring>

#include "runtime/device/cuda/small_copies.h"
#include "tests/device/cuda/recording_driver_impl.h"

namespace plimsoll::device::cuda {
namespace {

// The pointers that an entry takes, by its PTX.
std::size_t count_parameters(const std::string& text, const std::string& entry) {
  std::size_t at = text.find(".entry " + entry + "(");
  if (at == std::string::npos) return 0;
  const std::size_t end = text.find(')', at);
  std::size_t count = 0;
  for (at = text.find(".param", at); at < end; at = text.find(".param", at + 1)) ++count;
  return count;
}

// Whether a parameter says how many bytes there are, instead of where something lies.
bool is_size(const FunctionObject& function, std::size_t parameter) {
  return function.name == SmallCopies::kEntry && parameter == 2;
}

}  // namespace

// Modules and launches.

DriverResult RecordingDriver::Impl::module_load(ModuleHandle* made, const void* image,
                                                unsigned count, JitOption* which, void** values) {
  PLIMSOLL_NEEDS_CONTEXT("cuModuleLoadDataEx");
  const std::string text = static_cast<const char*>(image);
  const auto known = known_modules.find(text);
  if (known == known_modules.end()) {
    for (unsigned i = 0; i < count; ++i) {
      if (which[i] != JitOption::error_log_buffer) continue;
      std::strcpy(static_cast<char*>(values[i]), "the recording driver was not told of it");
    }
    return options.unknown_module;
  }
  if (!memory().take(options.module_bytes)) return out_of_memory;
  modules.push_back(std::make_unique<ModuleObject>());
  *made = modules.back().get();
  handles.insert(*made);
  (*made)->text = text;
  (*made)->device = device;
  return success;
}

DriverResult RecordingDriver::Impl::module_unload(ModuleHandle module) {
  PLIMSOLL_NEEDS_CONTEXT("cuModuleUnload");
  if (!is_live(modules, module)) return violate(invalid_handle, "cuModuleUnload: no such module");
  module->is_live = false;
  memory().give_back(options.module_bytes);
  return success;
}

DriverResult RecordingDriver::Impl::module_get_function(FunctionHandle* found, ModuleHandle module,
                                                        const char* name) {
  PLIMSOLL_NEEDS_CONTEXT("cuModuleGetFunction");
  if (!is_live(modules, module)) return violate(invalid_handle, "cuModuleGetFunction");
  const auto& entries = known_modules.at(module->text);
  const auto entry = entries.find(name);
  if (entry == entries.end()) return not_found;
  module->functions.push_back(std::make_unique<FunctionObject>());
  *found = module->functions.back().get();
  **found = {module, name, entry->second, count_parameters(module->text, name), 48 << 10};
  handles.insert(*found);
  return success;
}

DriverResult RecordingDriver::Impl::function_set_attribute(FunctionHandle function,
                                                           FunctionAttribute which, int value) {
  if (!handles.contains(function) || !function->module->is_live) {
    return violate(invalid_handle, "cuFuncSetAttribute");
  }
  if (which != FunctionAttribute::max_dynamic_shared_bytes || value > 227 << 10) {
    return violate(invalid_value, "cuFuncSetAttribute");
  }
  function->most_shared_bytes = value;
  return success;
}

DriverResult RecordingDriver::Impl::launch_kernel(FunctionHandle function, unsigned grid_x,
                                                  unsigned grid_y, unsigned grid_z,
                                                  unsigned block_x, unsigned block_y,
                                                  unsigned block_z, unsigned shared_bytes,
                                                  StreamHandle stream, void** parameters,
                                                  void** extra) {
  PLIMSOLL_NEEDS_STREAM("cuLaunchKernel", stream);
  if (!handles.contains(function) || !function->module->is_live) {
    return violate(invalid_handle, "cuLaunchKernel: no such function, or its module is unloaded");
  }
  const std::string what = "launch " + function->name;
  if (grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x == 0 || block_x > 1024 || block_y != 1 ||
      block_z != 1 || extra != nullptr ||
      shared_bytes > static_cast<unsigned>(function->most_shared_bytes)) {
    return violate(invalid_value, what + ": its shape");
  }
  Piece piece{.what = what};
  std::vector<void*> pointers;
  for (std::size_t i = 0; i < function->pointers; ++i) {
    void* const pointer = *static_cast<void**>(parameters[i]);
    pointers.push_back(pointer);
    if (pointer == nullptr || is_size(*function, i)) continue;
    if (reinterpret_cast<Address>(pointer) % 4 != 0) violations.push_back(what + ": alignment");
    const bool on_host = is_pinned(pointer, 1);
    if (!on_host && !is_address(pointer)) {
      return violate(invalid_value, what + ": a pointer that is not the GPU's");
    }
    piece.touches.push_back({pointer, -1, !on_host});
  }
  const LaunchShape shape{grid_x, block_x, shared_bytes};
  piece.run = [this, function, shape, pointers = std::move(pointers)] {
    if (!function->module->is_live) {
      violations.push_back("launch " + function->name + ": its module was unloaded before it ran");
      return;
    }
    std::vector<void*> usable;
    for (std::size_t i = 0; i < pointers.size(); ++i) {
      const bool is_pointer = pointers[i] != nullptr && !is_size(*function, i);
      usable.push_back(is_pointer ? translated(pointers[i]) : pointers[i]);
    }
    function->run(shape, usable);
  };
  return enqueue(*stream, std::move(piece));
}

// Graphs.

DriverResult RecordingDriver::Impl::stream_begin_capture(StreamHandle stream, int mode) {
  PLIMSOLL_NEEDS_STREAM("cuStreamBeginCapture", stream);
  if (mode != kCaptureThreadLocal || stream->graph != nullptr) {
    return violate(invalid_value, "cuStreamBeginCapture");
  }
  graphs.push_back(std::make_unique<GraphObject>());
  handles.insert(graphs.back().get());
  graphs.back()->origin = stream;
  stream->graph = graphs.back().get();
  stream->behind.clear();
  return success;
}

DriverResult RecordingDriver::Impl::stream_end_capture(StreamHandle stream, GraphHandle* made) {
  PLIMSOLL_NEEDS_STREAM("cuStreamEndCapture", stream);
  GraphObject* const graph = stream->graph;
  if (graph == nullptr || graph->origin != stream) {
    return violate(invalid_value, "cuStreamEndCapture: no capture began with this stream");
  }
  // Whatever joined it must come back to the stream that it began with.
  std::vector<bool> is_joined(graph->pieces.size(), false);
  std::vector<std::size_t> open = stream->behind;
  while (!open.empty()) {
    const std::size_t piece = open.back();
    open.pop_back();
    if (is_joined[piece]) continue;
    is_joined[piece] = true;
    open.insert(open.end(), graph->pieces[piece].after.begin(), graph->pieces[piece].after.end());
  }
  const bool is_whole = std::find(is_joined.begin(), is_joined.end(), false) == is_joined.end();
  if (!is_whole) violations.push_back("cuStreamEndCapture: work of another stream is not joined");
  for (const auto& other : streams) {
    if (other->graph != graph) continue;
    other->graph = nullptr;
    other->behind.clear();
  }
  for (const auto& event : events) {
    if (event->graph == graph) event->graph = nullptr;
  }
  graph->origin = nullptr;
  *made = nullptr;
  if (graph->is_broken || !is_whole) {
    graph->is_live = false;
    return stream_capture_invalidated;
  }
  *made = graph;
  return success;
}

DriverResult RecordingDriver::Impl::graph_instantiate(GraphExecutableHandle* made,
                                                      GraphHandle graph, unsigned long long flags) {
  PLIMSOLL_NEEDS_CONTEXT("cuGraphInstantiate");
  if (!is_live(graphs, graph) || flags != 0) return violate(invalid_value, "cuGraphInstantiate");
  graph_executables.push_back(std::make_unique<GraphExecutableObject>());
  *made = graph_executables.back().get();
  handles.insert(*made);
  (*made)->pieces = graph->pieces;
  return success;
}

DriverResult RecordingDriver::Impl::graph_destroy(GraphHandle graph) {
  PLIMSOLL_NEEDS_CONTEXT("cuGraphDestroy");
  if (!is_live(graphs, graph)) return violate(invalid_handle, "cuGraphDestroy");
  graph->is_live = false;
  return success;
}

DriverResult RecordingDriver::Impl::graph_launch(GraphExecutableHandle executable,
                                                 StreamHandle stream) {
  PLIMSOLL_NEEDS_STREAM("cuGraphLaunch", stream);
  if (!is_live(graph_executables, executable)) return violate(invalid_handle, "cuGraphLaunch");
  Piece launch{.what = "launch a graph of " + std::to_string(executable->pieces.size())};
  for (const Piece& piece : executable->pieces) {
    launch.touches.insert(launch.touches.end(), piece.touches.begin(), piece.touches.end());
  }
  const int number = stream->number;
  launch.run = [this, executable, number] {
    // Any order that respects what comes after what.
    const std::vector<Piece>& pieces = executable->pieces;
    std::vector<bool> is_done(pieces.size(), false);
    for (std::size_t done = 0; done < pieces.size(); ++done) {
      std::vector<std::size_t> ready;
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        const auto& after = pieces[i].after;
        if (!is_done[i] && std::all_of(after.begin(), after.end(),
                                       [&](std::size_t other) { return is_done[other]; })) {
          ready.push_back(i);
        }
      }
      const std::size_t next = options.schedule == Schedule::random ? ready[random() % ready.size()]
                               : options.schedule == Schedule::late ? ready.back()
                                                                    : ready.front();
      run(pieces[next], number);
      is_done[next] = true;
    }
  };
  return enqueue(*stream, std::move(launch));
}

DriverResult RecordingDriver::Impl::graph_executable_destroy(GraphExecutableHandle executable) {
  PLIMSOLL_NEEDS_CONTEXT("cuGraphExecDestroy");
  if (!is_live(graph_executables, executable)) {
    return violate(invalid_handle, "cuGraphExecDestroy");
  }
  for (const auto& stream : streams) {
    if (!stream->queue.empty()) {
      for (const Piece& piece : stream->queue) {
        if (piece.what.starts_with("launch a graph")) {
          violations.push_back("cuGraphExecDestroy: a launch of a graph is pending");
        }
      }
    }
  }
  executable->is_live = false;
  return success;
}

}  // namespace plimsoll::device::cuda
