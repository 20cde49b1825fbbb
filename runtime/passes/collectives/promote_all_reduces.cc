// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "runtime/base/index.h"
#include "runtime/base/pointer_set.h"
#include "runtime/ir/shapes/builder.h"
#include "runtime/passes/collectives/linear_form.h"
#include "runtime/passes/collectives/participant_groups.h"
#include "runtime/passes/collectives/replication.h"
#include "runtime/passes/collectives/same_value.h"
#include "runtime/passes/collectives/share.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/rewriter.h"

namespace plimsoll::passes {

using ir::Computation;
using ir::Groups;
using ir::Instruction;
using ir::Module;
using ir::Opcode;

namespace {

// The groups that a sum is over. Of a module that holds the programs of several partitions, how
// many they are, and in which of them the sum stands.
struct SummedOver {
  Groups groups;
  std::int64_t programs = 0;
  std::int64_t program = 0;
  friend bool operator==(const SummedOver&, const SummedOver&) = default;
};

// An all-reduce with a channel, which may be left out before a later one.
struct Term {
  Instruction* all_reduce = nullptr;
  std::string name = {};  // once it may be gone
  int sum = -1;           // which SummedOver
  std::string refusal;    // not empty: it stays
};

// Why a sum can't be told from its all-reduce; empty where it can.
std::string refusal_of_sum(const Instruction& all_reduce) {
  if (!ir::is_binary_computation(*all_reduce.to_apply(), Opcode::add)) return "it is no sum";
  if (!all_reduce.control_predecessors().empty() || !all_reduce.control_successors().empty()) {
    return "control edges hold it in its place";
  }
  const auto results = ir::leaves(all_reduce.shape());
  for (int i = 0; i < all_reduce.operand_count(); ++i) {
    const ir::DType dtype = all_reduce.operand(i)->shape().dtype();
    if (dtype == ir::DType::pred) return "it is no sum";
    if (results[at(i)]->dtype() != dtype) return "its result is of another dtype";
    if (all_reduce.to_apply()->root()->shape().dtype() != dtype) {
      return fmt::format("it adds {} by a reducer of {}", to_string(dtype),
                         to_string(all_reduce.to_apply()->root()->shape().dtype()));
    }
  }
  return "";
}

// N of sharding={maximal device=N}.
std::optional<std::int64_t> device_of(const Instruction& instruction) {
  constexpr std::string_view kBefore = "maximal device=";
  const std::string_view text = instruction.attributes().find_extra("sharding");
  const std::size_t found = text.find(kBefore);
  if (found == std::string_view::npos) return std::nullopt;
  std::int64_t device = 0;
  const char* const begin = text.data() + found + kBefore.size();
  if (std::from_chars(begin, text.data() + text.size(), device).ec != std::errc()) {
    return std::nullopt;
  }
  return device;
}

// By the numbers written, for modules whose header says nothing of replicas.
bool spans_replicas(const Instruction& all_reduce) {
  const auto& collective = all_reduce.attributes().collective;
  if (collective == nullptr || collective->replica_groups.empty()) {
    return all_reduce.parent()->module()->replica_count > 1;
  }
  return largest_group(collective->replica_groups) > 1;
}

// The work of one round: all that can be promoted at once.
class Promotion {
 public:
  Promotion(Module& module, const PromotionOptions& options)
      : module_(module),
        options_(options),
        replication_(module),
        same_(module),
        computations_(programs_of(module)) {
    find_terms();
  }

  bool run();
  void report(std::vector<Remark>& promoted, std::vector<Remark>& refused) const;

 private:
  void find_terms();
  void find_programs(const std::vector<Instruction*>& of_channel);
  std::string refusal_of_term(const Instruction& all_reduce) const;
  int number_of(SummedOver sum);

  void find_forms();
  int term_of(const Instruction& value);
  std::string refusal_of_outer(const Instruction& all_reduce) const;
  std::optional<int> summed_by(const Instruction& all_reduce) const;

  bool drop_what_is_read_otherwise();
  std::string wrong_reader(const Instruction& value,
                           const PointerMap<ir::Instruction, std::string>& wrong) const;
  bool drop_whole_channels();
  bool drop_what_differs();
  bool alike(const Instruction& a, const Instruction& b,
             std::set<std::pair<const Instruction*, const Instruction*>>& seen);
  void terms_of(const Instruction& value, std::set<Term*>& found,
                std::set<const Instruction*>& seen);
  std::set<Term*> terms_of_outer(const Instruction& outer);
  Term* find_active(const Instruction& all_reduce);

  void rewrite();
  void share_addend(Instruction& reader, int operand, const SummedOver& sum);

  Module& module_;
  const PromotionOptions& options_;
  Replication replication_;
  SameValues same_;
  std::vector<Computation*> computations_;
  std::vector<SummedOver> sums_;
  std::vector<std::unique_ptr<Term>> terms_;
  PointerMap<Instruction, Term*> term_at_;
  PointerMap<Instruction, SummedOver> program_sum_;
  std::unique_ptr<LinearForms> forms_;
  std::vector<Instruction*> outers_;  // all-reduces of sums
  PointerMap<Instruction, int> outer_sum_;
  PointerMap<Instruction, std::int64_t> matched_;  // outers of several programs that are one
  std::vector<Remark> promoted_, async_;
};

int Promotion::number_of(SummedOver sum) {
  const auto known = std::find(sums_.begin(), sums_.end(), sum);
  if (known != sums_.end()) return static_cast<int>(known - sums_.begin());
  sums_.push_back(std::move(sum));
  return static_cast<int>(sums_.size()) - 1;
}

// All-reduces of one channel that stand in programs of different partitions.
void Promotion::find_programs(const std::vector<Instruction*>& of_channel) {
  if (!options_.several_programs || of_channel.size() < 2) return;
  std::set<std::int64_t> devices;
  for (const Instruction* all_reduce : of_channel) {
    const auto device = device_of(*all_reduce);
    if (!device.has_value() || !devices.insert(*device).second) return;
  }
  for (const Instruction* all_reduce : of_channel) {
    const auto place = std::distance(devices.begin(), devices.find(*device_of(*all_reduce)));
    program_sum_[all_reduce] = {{}, static_cast<std::int64_t>(of_channel.size()), place};
  }
}

void Promotion::find_terms() {
  std::map<std::int64_t, std::vector<Instruction*>> by_channel;
  for (Computation* computation : computations_) {
    for (const auto& instruction : computation->instructions()) {
      if (ir::channel_of(*instruction) == 0) continue;
      if (instruction->opcode() == Opcode::all_reduce) {
        by_channel[ir::channel_of(*instruction)].push_back(instruction.get());
      } else if (instruction->opcode() == Opcode::all_reduce_start) {
        async_.push_back({instruction->name(), false, "it is asynchronous"});
      }
    }
  }
  for (const auto& [channel, all_reduces] : by_channel) find_programs(all_reduces);
  for (Computation* computation : computations_) {
    for (const auto& instruction : computation->instructions()) {
      if (instruction->opcode() != Opcode::all_reduce || ir::channel_of(*instruction) == 0)
        continue;
      auto term = std::make_unique<Term>(Term{instruction.get(), instruction->name(), -1, ""});
      term->refusal = refusal_of_term(*instruction);
      if (term->refusal.empty()) {
        const SummedOver* const program = program_sum_.find(instruction.get());
        term->sum = number_of(
            program != nullptr
                ? *program
                : SummedOver{std::move(ir::collective_groups(*instruction).value()), 0, 0});
      }
      term_at_[instruction.get()] = term.get();
      terms_.push_back(std::move(term));
    }
  }
}

std::string Promotion::refusal_of_term(const Instruction& all_reduce) const {
  if (std::string why = refusal_of_sum(all_reduce); !why.empty()) return why;
  constexpr const char* kSpans = "it sums over replicas already";
  if (program_sum_.contains(&all_reduce)) return spans_replicas(all_reduce) ? kSpans : "";
  const auto groups = ir::collective_groups(all_reduce);
  if (!groups.ok()) return groups.status().message();
  if (!within_replicas(*groups, ir::topology_of(all_reduce))) return kSpans;
  if (largest_group(*groups) == 1) return "its groups have one participant each";
  return "";
}

Term* Promotion::find_active(const Instruction& all_reduce) {
  Term* const* const term = term_at_.find(&all_reduce);
  return term != nullptr && (*term)->refusal.empty() ? *term : nullptr;
}

// The sum that all operands are, but for common ones.
std::optional<int> Promotion::summed_by(const Instruction& all_reduce) const {
  std::optional<int> sum;
  for (const Instruction* operand : all_reduce.operands()) {
    const LinearForms::Form* const form = forms_->find_linear(*operand);
    if (form == nullptr) continue;
    if (sum.has_value() && *sum != form->sum) return std::nullopt;
    sum = form->sum;
  }
  return sum;
}

// Why an all-reduce can't also sum what the sum that it reads did.
std::string Promotion::refusal_of_outer(const Instruction& all_reduce) const {
  const auto number = summed_by(all_reduce);
  if (!number.has_value()) return fmt::format("'{}' reads different sums", all_reduce.name());
  const SummedOver& sum = sums_[at(*number)];
  const std::string who = fmt::format("'{}', which reads it: ", all_reduce.name());
  if (std::string why = refusal_of_sum(all_reduce); !why.empty()) return who + why;
  for (const Instruction* operand : all_reduce.operands()) {
    if (forms_->find_linear(*operand) != nullptr || sum.programs > 0) continue;
    if (!replication_.within(*operand, sum.groups)) {
      return who + fmt::format("'{}' is not known to be the same in all that are summed",
                               operand->name());
    }
  }
  if (sum.programs > 0) {
    if (ir::channel_of(all_reduce) != 0) return who + "it sums over partitions, too";
    return spans_replicas(all_reduce) ? "" : who + "there is one replica";
  }
  const auto groups = ir::collective_groups(all_reduce);
  if (!groups.ok()) return who + groups.status().message();
  if (largest_group(*groups) == 1) return who + "its groups have one participant each";
  if (!joined_groups(*groups, sum.groups).has_value()) {
    return who + "together they would sum a participant twice";
  }
  return "";
}

int Promotion::term_of(const Instruction& value) {
  if (value.opcode() == Opcode::get_tuple_element) {
    const Instruction& tuple = *value.operand(0);
    if (tuple.opcode() != Opcode::all_reduce || outer_sum_.contains(&tuple)) return -1;
    Term* const term = find_active(tuple);
    return term == nullptr ? -1 : term->sum;
  }
  if (value.opcode() != Opcode::all_reduce) return -1;
  const bool reads_sum =
      std::any_of(value.operands().begin(), value.operands().end(),
                  [&](const Instruction* o) { return forms_->find_linear(*o) != nullptr; });
  if (reads_sum && refusal_of_outer(value).empty()) {
    outers_.push_back(const_cast<Instruction*>(&value));
    outer_sum_[&value] = *summed_by(value);
    return -1;
  }
  if (value.shape().is_tuple()) return -1;
  Term* const term = find_active(value);
  return term == nullptr ? -1 : term->sum;
}

void Promotion::find_forms() {
  outers_.clear();
  outer_sum_ = PointerMap<Instruction, int>();
  forms_ =
      std::make_unique<LinearForms>(options_.narrower_sums, [&](const Instruction& value, int sum) {
        // Of several programs, what they have is compared in the end.
        return sums_[at(sum)].programs > 0 || replication_.within(value, sums_[at(sum)].groups);
      });
  for (const Computation* computation : computations_) {
    forms_->find(*computation, [&](const Instruction& value) { return term_of(value); });
  }
}

// A reader that needs the sum itself; empty: there is none.
std::string Promotion::wrong_reader(const Instruction& value,
                                    const PointerMap<Instruction, std::string>& wrong) const {
  if (value.is_root()) return fmt::format("it is a result of '{}'", value.parent()->name());
  if (value.users().empty()) return "nothing reads it";
  const bool is_whole = value.shape().is_tuple();
  for (const Instruction* user : value.users()) {
    if (outer_sum_.contains(user)) continue;
    if (const std::string* const why = wrong.find(user)) return *why;
    const bool is_part = user->opcode() == Opcode::get_tuple_element;
    if (forms_->find_linear(*user) != nullptr && user->opcode() != Opcode::all_reduce &&
        is_part == is_whole) {
      continue;
    }
    if (user->opcode() == Opcode::all_reduce) return refusal_of_outer(*user);
    const std::string& why = forms_->why_not(*user);
    return why.empty() ? fmt::format("'{}' reads it", user->name()) : why;
  }
  return "";
}

// A term whose sum is read by what is not linear has to be computed anyway.
bool Promotion::drop_what_is_read_otherwise() {
  bool dropped = false;
  for (const Computation* computation : computations_) {
    PointerMap<Instruction, std::string> wrong;
    const auto& instructions = computation->instructions();
    for (auto it = instructions.rbegin(); it != instructions.rend(); ++it) {
      const Instruction& value = **it;
      Term* const term = outer_sum_.contains(&value) ? nullptr : find_active(value);
      if (term == nullptr && forms_->find_linear(value) == nullptr) continue;
      std::string why = wrong_reader(value, wrong);
      if (why.empty()) continue;
      if (term != nullptr) {
        term->refusal = why;
        dropped = true;
      }
      wrong[&value] = std::move(why);
    }
  }
  return dropped;
}

bool Promotion::drop_whole_channels() {
  std::map<std::int64_t, const Term*> refused;
  for (const auto& term : terms_) {
    if (!term->refusal.empty()) refused.emplace(ir::channel_of(*term->all_reduce), term.get());
  }
  bool dropped = false;
  for (const auto& term : terms_) {
    if (!term->refusal.empty()) continue;
    const auto other = refused.find(ir::channel_of(*term->all_reduce));
    // In its turn it may be a later sum that takes an earlier one over.
    if (other == refused.end()) continue;
    term->refusal = fmt::format("'{}', of the same channel, stays: {}",
                                other->second->all_reduce->name(), other->second->refusal);
    dropped = true;
  }
  return dropped;
}

bool Promotion::alike(const Instruction& a, const Instruction& b,
                      std::set<std::pair<const Instruction*, const Instruction*>>& seen) {
  if (!seen.emplace(&a, &b).second) return true;
  const bool linear_a = forms_->find_linear(a) != nullptr;
  if (linear_a != (forms_->find_linear(b) != nullptr)) return false;
  if (!linear_a) return same_.same(a, b);
  if (!same_.same_operation(a, b)) return false;
  if (a.opcode() == Opcode::all_reduce) return ir::channel_of(a) == ir::channel_of(b);
  if (a.opcode() == Opcode::get_tuple_element) {
    return ir::channel_of(*a.operand(0)) == ir::channel_of(*b.operand(0));
  }
  for (int i = 0; i < a.operand_count(); ++i) {
    if (!alike(*a.operand(i), *b.operand(i), seen)) return false;
  }
  return true;
}

void Promotion::terms_of(const Instruction& value, std::set<Term*>& found,
                         std::set<const Instruction*>& seen) {
  if (!seen.insert(&value).second) return;
  const Instruction& whole =
      value.opcode() == Opcode::get_tuple_element ? *value.operand(0) : value;
  if (whole.opcode() == Opcode::all_reduce && forms_->find_linear(value) != nullptr) {
    if (Term* const term = find_active(whole)) found.insert(term);
    return;
  }
  for (const Instruction* operand : value.operands()) {
    if (forms_->find_linear(*operand) != nullptr) terms_of(*operand, found, seen);
  }
}

std::set<Term*> Promotion::terms_of_outer(const Instruction& outer) {
  std::set<Term*> found;
  std::set<const Instruction*> seen;
  for (const Instruction* operand : outer.operands()) {
    if (forms_->find_linear(*operand) != nullptr) terms_of(*operand, found, seen);
  }
  return found;
}

// Every partition's program must have the same operations on the same sums, up to a sum over
// replicas each.
bool Promotion::drop_what_differs() {
  matched_ = PointerMap<Instruction, std::int64_t>();
  std::vector<Instruction*> unmatched;
  std::int64_t next = 0;
  for (Instruction* outer : outers_) {
    if (sums_[at(outer_sum_.at(outer))].programs > 0) unmatched.push_back(outer);
  }
  for (Instruction* first : unmatched) {
    if (matched_.contains(first)) continue;
    const SummedOver& sum = sums_[at(outer_sum_.at(first))];
    std::vector<Instruction*> set = {first};
    std::set<std::int64_t> programs = {sum.program};
    for (Instruction* other : unmatched) {
      const SummedOver& of_other = sums_[at(outer_sum_.at(other))];
      if (matched_.contains(other) || of_other.programs != sum.programs ||
          programs.contains(of_other.program) || !same_.same_operation(*first, *other)) {
        continue;
      }
      std::set<std::pair<const Instruction*, const Instruction*>> seen;
      bool all = true;
      for (int i = 0; i < first->operand_count(); ++i) {
        all = all && alike(*first->operand(i), *other->operand(i), seen);
      }
      if (!all) continue;
      set.push_back(other);
      programs.insert(of_other.program);
    }
    if (static_cast<std::int64_t>(set.size()) < sum.programs) continue;
    for (Instruction* member : set) matched_[member] = next;
    ++next;
  }
  bool dropped = false;
  for (Instruction* outer : unmatched) {
    if (matched_.contains(outer)) continue;
    for (Term* term : terms_of_outer(*outer)) {
      term->refusal = fmt::format("what '{}' sums is not known to be the same in every partition",
                                  outer->name());
      dropped = true;
    }
  }
  return dropped;
}

void Promotion::share_addend(Instruction& reader, int operand, const SummedOver& sum) {
  Instruction& value = *reader.operand(operand);
  reader.replace_operand(
      operand, sum.programs > 0 ? add_share_of_program(reader, value, sum.programs, sum.program)
                                : add_share(reader, value, sum.groups));
}

void Promotion::rewrite() {
  std::set<std::int64_t> used;
  std::map<std::int64_t, std::int64_t> channel_of_set;
  std::int64_t free = ir::unused_channel(module_);
  for (Instruction* outer : outers_) {
    const SummedOver& sum = sums_[at(outer_sum_.at(outer))];
    const std::set<Term*> terms = terms_of_outer(*outer);
    // Channels that are no longer in use are used again.
    std::int64_t channel = 0;
    for (const Term* term : terms) {
      const std::int64_t of_term = ir::channel_of(*term->all_reduce);
      if (!used.contains(of_term) && (channel == 0 || of_term < channel)) channel = of_term;
    }
    const std::int64_t* const set = matched_.find(outer);
    if (set != nullptr && channel_of_set.contains(*set)) {
      channel = channel_of_set[*set];
    } else if (channel == 0) {
      channel = free++;
    }
    used.insert(channel);
    if (set != nullptr) channel_of_set[*set] = channel;
    ir::Attributes& attributes = outer->attributes();
    std::int64_t participants = 0;
    if (sum.programs > 0) {
      auto collective = attributes.collective == nullptr
                            ? std::make_shared<ir::CollectiveAttributes>()
                            : std::make_shared<ir::CollectiveAttributes>(*attributes.collective);
      collective->channel_id = channel;
      participants = sum.programs * (collective->replica_groups.empty()
                                         ? module_.replica_count
                                         : largest_group(collective->replica_groups));
      attributes.collective = std::move(collective);
    } else {
      const Groups joined = *joined_groups(*ir::collective_groups(*outer), sum.groups);
      attributes.collective = attributes_for(joined, ir::topology_of(*outer), channel);
      participants = largest_group(joined);
    }
    for (const Term* term : terms) {
      promoted_.push_back(
          {term->all_reduce->name(), true,
           fmt::format("'{}' sums over {} participants instead", outer->name(), participants)});
    }
  }
  for (const Instruction* outer : outers_) {
    for (int i = 0; i < outer->operand_count(); ++i) {
      if (forms_->find_linear(*outer->operand(i)) != nullptr) continue;
      share_addend(*const_cast<Instruction*>(outer), i, sums_[at(outer_sum_.at(outer))]);
    }
  }
  for (Computation* computation : computations_) {
    std::vector<std::pair<Instruction*, LinearForms::Form>> linear;
    for (const auto& instruction : computation->instructions()) {
      if (const auto* form = forms_->find_linear(*instruction)) {
        linear.emplace_back(instruction.get(), *form);
      }
    }
    for (const auto& [value, form] : linear) {
      for (const int i : form.rule.addends) share_addend(*value, i, sums_[at(form.sum)]);
    }
  }
  for (const auto& term : terms_) {
    if (!term->refusal.empty() || outer_sum_.contains(term->all_reduce)) continue;
    Instruction& all_reduce = *term->all_reduce;
    if (!all_reduce.shape().is_tuple()) {
      all_reduce.replace_all_uses_with(all_reduce.operand(0));
      continue;
    }
    const std::vector<Instruction*> parts = all_reduce.users();
    for (Instruction* part : parts) {
      part->replace_all_uses_with(
          all_reduce.operand(static_cast<int>(part->attributes().tuple_index)));
    }
  }
  for (Computation* computation : computations_) computation->remove_dead();
}

// What can't be promoted may be an addend or a factor of what can, so that all is looked at again
// whenever something is dropped. Each round drops at least one.
bool Promotion::run() {
  if (terms_.empty()) return false;
  do {
    find_forms();
  } while (drop_what_is_read_otherwise() || drop_whole_channels() || drop_what_differs());
  if (outers_.empty()) return false;
  rewrite();
  return true;
}

void Promotion::report(std::vector<Remark>& promoted, std::vector<Remark>& refused) const {
  promoted.insert(promoted.end(), promoted_.begin(), promoted_.end());
  refused = async_;
  for (const auto& term : terms_) {
    if (!term->refusal.empty()) refused.push_back({term->name, false, term->refusal});
  }
}

}  // namespace

Result<bool> promote_all_reduces(Module& module, const PromotionOptions& options,
                                 std::vector<Remark>* remarks) {
  if (!are_countable(module)) return false;
  bool changed = false;
  std::vector<Remark> promoted, refused;
  std::set<std::string> candidates;
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      if (ir::channel_of(*instruction) != 0) candidates.insert(instruction->name());
    }
  }
  // A sum that took another over may be taken over by the next.
  for (bool again = true; again;) {
    Promotion promotion(module, options);
    again = promotion.run();
    promotion.report(promoted, refused);
    changed = changed || again;
  }
  if (remarks != nullptr) {
    *remarks = std::move(promoted);
    // Not the sums that others became.
    for (Remark& remark : refused) {
      if (candidates.contains(remark.instruction)) remarks->push_back(std::move(remark));
    }
  }
  return changed;
}

}  // namespace plimsoll::passes
