#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# kernel_log.sh FILE - an oracle for fuzz remote in the guest: fails, and says why, when the kernel has
# complained since it was asked last. The log is emptied into FILE, complaints go to FILE.bad as well.
# What the kernel says once per boot it may say again.
bad='BUG:|WARNING:|KASAN|UBSAN|Oops|general protection|possible (circular|recursive) locking'
bad+='|inconsistent lock|suspicious RCU|blocked for more than|refcount_t:|DEBUG_LOCKS_WARN_ON'
bad+='|ODEBUG|waiting for .* to become free'
found=$(dmesg -c | tee -a "$1" | sed 's/^\[[^]]*\] //' | grep -E "$bad") || exit 0
echo 1 >/sys/kernel/debug/clear_warn_once
echo "$found" | tee -a "$1.bad" | head -n 1
exit 1
