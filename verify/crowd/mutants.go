package crowd

import (
	"fmt"
	"maps"
	"strings"
)

// mutant is one rule that is broken in the scripts.
type mutant struct {
	seed       uint64 // the first game that shows it
	name, file string
	old, new   string
}

// in returns the scripts with the mutant in them.
func (m mutant) in(s scripts) (scripts, error) {
	source := s[m.file]
	if strings.Count(source, m.old) != 1 {
		return nil, fmt.Errorf("%s has %d times: %s", m.file, strings.Count(source, m.old), m.old)
	}
	mutated := maps.Clone(s)
	mutated[m.file] = strings.Replace(source, m.old, m.new, 1)
	return mutated, nil
}

var mutants = []mutant{
	{4, "tombstones refuse nobody", "shared_acquire", "call('EXISTS', KEYS[7]) == 1", "call('EXISTS', KEYS[7]) == 2"},
	{1, "a newcomer overtakes the queue", "shared_acquire", "all and fits(wish, wanted)", "fits(wish, {})"},
	{11, "a newcomer to members waits for all", "shared_acquire", "all and fits(wish, wanted)", "next(wanted) == nil and all and fits(wish, wanted)"},
	{5, "a member that is waited for is not kept", "shared_prelude", "wanted[line] = true", "wanted[line] = nil"},
	{4, "last in, first out", "shared_prelude", "call('ZRANGE', KEYS[3], passed, passed)", "call('ZREVRANGE', KEYS[3], passed, passed)"},
	{4, "a release serves nobody", "shared_release", "if done > 0 then", "if done == 2 then"},
	{21, "one that leaves lets nobody by", "shared_release", "if done > 0 then", "if done == 1 then"},
	{12, "a late release takes from a new place", "shared_release", "elseif leave(owner) then", "elseif leave(owner) or till > 0 then"},
	{1, "tokens do not rise", "shared_prelude", "last = last + 1", "last = last + 0"},
	{1, "what is handed over lasts longer than the place", "shared_prelude", "signal(owner, give(owner, wish, till))", "signal(owner, give(owner, wish, till + 1))"},
	{11, "a dead place is granted", "shared_prelude", "local wish = till > now and wish_of(owner)", "local wish = till > 0 and wish_of(owner)"},
	{39, "a renewal revives", "shared_renew", "tonumber(ends) <= now", "tonumber(ends) <= 0"},
	{7, "a renewal does not look at the token", "shared_renew", "' .. token .. ' ", "%d+ "},
	{41, "a renewal shortens the lock", "shared_renew", "math.max(latest, till)", "till"},
	{9, "asking again revives", "shared_acquire", "if mine > now and before then", "if mine > 0 and (before or wish_of(owner)) then before = wish_of(owner)"},
	{206, "members of the dead stay taken", "shared_prelude", "return latest > now and latest or 0", "return latest"},
	{58, "the dead count as holders", "shared_prelude", "call('ZCOUNT', key, '(' .. text(now), '+inf')", "call('ZCOUNT', key, '-inf', '+inf')"},
	{3, "readers join a writer", "shared_prelude", "wish.mode == 'r' and not writing()", "wish.mode == 'r'"},
	{1, "one permit too many", "shared_prelude", "live < wish.limit", "live <= wish.limit"},
	{27, "a turn to reading wakes nobody", "shared_acquire", "note(owner, wish, before.token)\n    serve()", "note(owner, wish, before.token)"},
	{83, "a reader turns into a writer", "shared_acquire", "not (mine > now and before.mode == 'w')", "not (mine > now)"},
	{2, "polls do not keep the place", "shared_acquire", "if known and place > 0 then", "if known and place < 0 then"},
	{7, "dead places stay in the queue", "shared_acquire", "if dead ~= owner then", "if dead == '' then"},
	{56, "who asks itself does not get the whole TTL", "shared_acquire", "    hold(owner, after(ttl))\n    return {1, wish_of(owner).token}", "    return {1, wish_of(owner).token}"},
	{1, "the lock has no end", "shared_prelude", "if latest > now then", "if latest < now then"},
	{1, "records have no end", "shared_prelude", "for i = 5, 6 do", "for i = 6, 6 do"},
	{1, "the queue has no end", "shared_acquire", "call('PEXPIRE', KEYS[i], text(4 * place))", "call('PTTL', KEYS[i])"},
	{1, "records of the dead are kept", "shared_acquire", "  sweep()", "  -- sweep()"},
	{5, "members of the dead are kept", "shared_prelude", "call('UNLINK', KEYS[6]) -- of leases", "call('HLEN', KEYS[6]) -- of leases"},
	{306, "those that wait do not keep other modes away", "shared_acquire", "living(KEYS[1]) > 0 or living(KEYS[4]) > 0", "living(KEYS[1]) > 0"},
	{1, "to force does not look at the token", "shared_force", "tonumber(held.token) <= seen", "tonumber(held.token) <= seen + 10"},
	{1, "the mark is of before the walk", "shared_prelude", "last, memory = new - 1, tonumber(ms)", "last, memory = new, tonumber(ms)"},
	{1, "a lease is rounded down", "shared_prelude", "return now + ms + 1", "return now + ms"},
	{1, "a renewal is rounded down", "shared_renew", "now + ttl + 1", "now + ttl"},
	{13, "a mode is not told from another", "shared_acquire", "if family and family ~= mode then", "if family and family == '' then"},
}
