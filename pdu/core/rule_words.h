/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The words of which a rulebook's rows are made, whatever the protocol: what each means stands at the
 * head of pdu/nvme/wire/rules.def. Only for the file that includes a rules.def.
 */
#ifndef NVMF_CORE_RULE_WORDS_H
#define NVMF_CORE_RULE_WORDS_H

#include "rule.h"

#define HOST                       PARTY_HOST
#define CONTROLLER                 PARTY_CONTROLLER
#define MUST                       LEVEL_MUST
#define SHOULD                     LEVEL_SHOULD
#define INFO                       LEVEL_INFO
#define PRINTED                    BASIS_PRINTED
#define GENERAL                    BASIS_GENERAL
#define OWN                        BASIS_OWN
#define BINDS(who, level_, basis_) .bound = (who), .level = (level_), .basis = (basis_)
#define SOURCE(text)               .source = (text)
#define DUTY(text)                 .says = (text)
#define REACTS(basis_, ...)        .reacts = (basis_), __VA_ARGS__
#define NO_REACTION                .reacts = BASIS_NONE, .reaction = REACT_NONE
#define TERM(...)                  .reaction = REACT_TERM, .accept = { __VA_ARGS__ }
#define STATUS(...)                .reaction = REACT_STATUS, .accept = { __VA_ARGS__ }
#define REJECTS(...)               .reaction = REACT_REJECT, .accept = { __VA_ARGS__ }
#define AUTHS(...)                 .reaction = REACT_AUTH, .accept = { __VA_ARGS__ }
#define ANY_END(...)               .reaction = REACT_ANY, .accept = { __VA_ARGS__ }
#define REFUSES(...)               .reaction = REACT_REFUSE, .accept = { __VA_ARGS__ }
#define SURVIVES(...)              .reaction = REACT_NONE, .accept = { __VA_ARGS__ }
#define ENDS                       .reaction = REACT_ANY
#define CLOSES                     .reaction = REACT_CLOSE
#define TOLERATED                  .reaction = REACT_TOLERATE
#define UNOWED                     .unowed = true
#define CHECKED(folders)           .checked = (folders)
#define UNCHECKED(why)             .unchecked = (why)
#define BROKEN(by, ...)            .violators = (by), ##__VA_ARGS__
#define UNBROKEN(why)              .unbroken = (why)
#define WAIVE_ALSO(...)            .shadows = { __VA_ARGS__ }
#define UNTRIED(who, why)          .untried[who] = (why)
#define SEEN(where)                .seen = (where)
#define SEEN_BUT(where, why)       .seen = (where), .unseen = (why)
#define LIVE                       SEEN_LIVE
#define CAPTURE                    SEEN_CAPTURE
#define ALONE                      SEEN_ALONE
#define SET_UP                     SEEN_SET_UP

#endif
