#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# kernel_log.sh FILE - an oracle for fuzz remote in the guest: fails, and says why, when the kernel has
# complained since it was asked last. The log is emptied into FILE, complaints go to FILE.bad as well,
# each with the first function of the target in its stack. What the kernel says once per boot it may
# say again; of a task that hangs it is heard once (FILE.stuck has these). It is asked often: one awk.
dmesg -c | exec awk -v file="$1" '
        function tell() {
                if (line != "") {
                        print line where >>(file ".bad")
                        if (!found++)
                                print line where
                }
                line = where = ""
        }
        BEGIN {
                bad = "BUG:|WARNING:|KASAN|UBSAN|Oops|general protection|refcount_t:|ODEBUG" \
                      "|possible (circular|recursive) locking|inconsistent lock|suspicious RCU" \
                      "|blocked for more than|DEBUG_LOCKS_WARN_ON|waiting for .* to become free"
                while ((getline task <(file ".stuck")) > 0)
                        known[task] = 1
        }
        { print >>file; sub(/^\[[^]]*\] /, "") }
        $0 ~ bad {
                tell()
                if (/blocked for more than/) {
                        if ($3 in known)
                                next
                        known[$3] = 1
                        print $3 >>(file ".stuck")
                }
                line = $0
        }
        line != "" && where == "" && match($0, /(nvmet|srpt|target|transport|core)_[a-z0-9_]+\+/) {
                where = " in " substr($0, RSTART, RLENGTH - 1)
        }
        END {
                tell()
                if (found)
                        print 1 >"/sys/kernel/debug/clear_warn_once"
                exit found > 0
        }'
