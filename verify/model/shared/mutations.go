// Broken rules of the scripts, each of which the comparison must find.

package shared

import (
	"fmt"
	"maps"
	"strings"
)

// scriptMutation is a broken rule of the scripts. The comparison must find it.
type scriptMutation struct {
	seed       uint64 // the first seed that finds it
	name, file string
	old, new   string
}

// in returns the scripts with the mutation.
func (m scriptMutation) in(s scripts) (scripts, error) {
	source := s[m.file]
	if strings.Count(source, m.old) != 1 {
		return nil, fmt.Errorf("%s contains %d times, want once: %s", m.file, strings.Count(source, m.old), m.old)
	}
	mutated := maps.Clone(s)
	mutated[m.file] = strings.Replace(source, m.old, m.new, 1)
	return mutated, nil
}

var scriptMutations = []scriptMutation{
	{4, "acquire ignores tombstones", "shared_acquire", "call('EXISTS', KEYS[7]) == 1", "call('EXISTS', KEYS[7]) == 2"},
	{1, "a new request overtakes the queue", "shared_acquire", "complete and can_grant(request, reserved)", "can_grant(request, {})"},
	{110, "a new request for members waits for every waiter", "shared_acquire", "complete and can_grant(request, reserved)", "next(reserved) == nil and complete and can_grant(request, reserved)"},
	{8, "members of waiters are not reserved", "shared_prelude", "reserved[member] = true", "reserved[member] = nil"},
	{7, "last in, first out", "shared_prelude", "call('ZRANGE', KEYS[3], skipped, skipped)", "call('ZREVRANGE', KEYS[3], skipped, skipped)"},
	{6, "a release of a lease grants to no waiter", "shared_release", "if result > 0 and", "if result == 2 and"},
	{21, "a release of a place grants to no waiter", "shared_release", "if result > 0 and", "if result == 1 and"},
	{12, "a release with a tombstone always grants to waiters", "shared_release", "elseif remove_waiter(owner) then", "elseif remove_waiter(owner) or expires_at > 0 then"},
	{1, "tokens do not rise", "shared_prelude", "last_token = last_token + 1", "last_token = last_token + 0"},
	{1, "a handed-over lock outlasts the place", "shared_prelude", "signal(owner, grant_request(owner, request, expires_at))", "signal(owner, grant_request(owner, request, expires_at + 1))"},
	{18, "an expired place is granted", "shared_prelude", "local request = expires_at > now and read_record(owner)", "local request = expires_at > 0 and read_record(owner)"},
	{39, "a renewal revives an expired lease", "shared_renew", "expires_at <= now", "expires_at <= 0"},
	{7, "a renewal ignores the token", "shared_renew", "' .. token .. ' ", "%d+ "},
	{247, "a renewal shortens the expiry of the key", "shared_renew", "math.max(latest, expires_at)", "expires_at"},
	{243, "a stepwise renewal revives an expired lease", "shared_renew_key", "before > now", "before > 0"},
	{207, "a stepwise renewal ignores the token", "shared_renew_key", "' .. token .. ' ", "%d+ "},
	{94, "a stepwise renewal shortens the expiry of the key", "shared_renew_key", "math.max(latest, expires_at)", "expires_at"},
	{2, "a stepwise renewal is rounded down", "shared_renew_key", "now + ttl + 1", "now + ttl"},
	{1, "a renewal shortens a lease", "shared_renew", "math.max(before, expires_at)", "expires_at"},
	{27, "a stepwise renewal shortens a lease", "shared_renew_key", "math.max(before, now + ttl + 1)", "now + ttl + 1"},
	{3, "a repeated acquire shortens a lease", "shared_acquire", "set_lease(owner, math.max(own_expiry, from_now(ttl)))", "set_lease(owner, from_now(ttl))"},
	{9, "a repeated acquire revives an expired lease", "shared_acquire", "if own_expiry > now and record then", "if own_expiry > 0 and (record or read_record(owner)) then record = read_record(owner)"},
	{179, "members of expired leases stay taken", "shared_prelude", "if latest <= now then", "if latest <= 0 then"},
	{58, "expired leases count as holders", "shared_prelude", "call('ZCOUNT', KEYS[1], '(' .. format_int(now), '+inf')", "call('ZCOUNT', KEYS[1], '-inf', '+inf')"},
	{3, "readers join a writer", "shared_prelude", "request.mode == 'r' and not write_locked()", "request.mode == 'r'"},
	{1, "one permit too many", "shared_prelude", "used_permits() + request.permits <= request.limit", "used_permits() + request.permits <= request.limit + 1"},
	{4, "several permits count as one", "shared_prelude", "return live > 0 and live + extra_permits() or 0", "return live"},
	{7, "permits of a released lease stay taken", "shared_prelude", "add_extra_permits(-extra)", "add_extra_permits(0)"},
	{4, "permits of leases that expired with the lock stay taken", "shared_prelude", "if extra_permits() > 0 and redis.call('ZCARD', KEYS[1]) == 0 then", "if extra_permits() < 0 then"},
	{4, "the time until permits are free is that of the first lease", "shared_prelude", "missing = missing - (record and record.permits or 1)", "missing = 0"},
	{27, "a downgrade grants to no waiter", "shared_acquire", "write_record(owner, request, record.token)\n    grant_waiters()", "write_record(owner, request, record.token)"},
	{180, "a read lease becomes a write lease", "shared_acquire", "not (own_expiry > now and record.mode == 'w')", "not (own_expiry > now)"},
	{3, "a poll does not extend the place", "shared_acquire", "if has_place and place > 0 then", "if has_place and place < 0 then"},
	{7, "expired places stay in the queue", "shared_acquire", "if expired ~= owner then", "if expired == '' then"},
	{66, "a poll that grants the lock does not set the TTL", "shared_acquire", "    set_lease(owner, from_now(ttl))\n    return reply({1, read_record(owner).token})", "    return reply({1, read_record(owner).token})"},
	{1, "the key of the leases does not expire", "shared_prelude", "if latest > now then", "if latest < now then"},
	{1, "the records do not expire", "shared_prelude", "call('PEXPIRE', KEYS[5], format_int(ms))", "call('PTTL', KEYS[5])"},
	{1, "the queue does not expire", "shared_acquire", "call('PEXPIRE', KEYS[3], ms)", "call('PTTL', KEYS[3])"},
	{1, "records of expired leases stay", "shared_acquire", "sweep_records(MAX_SWEPT)", "count_live()"},
	{2, "records of expired batches stay", "shared_acquire", "sweep_records(MAX_SWEPT_WITH_MEMBERS)", "count_live()"},
	{8, "a sweep removes records of waiters", "shared_prelude", " and not redis.call('ZSCORE', KEYS[3], owner)", ""},
	{35, "a blocking batch blocks forever", "shared_prelude", "if expires_at > now then\n      return expires_at", "if stored ~= '' then\n      return expires_at"},
	{152, "a new blocking batch is not found", "shared_prelude", "elseif stored == blocker_record() then", "elseif string.sub(stored, 1, 1) == '}' then"},
	{2, "unsent members count as an empty list", "shared_acquire", "if members_unsent and not record then", "if members_unsent and record == '' then"},
	{32, "members of expired leases stay", "shared_prelude", "call('UNLINK', KEYS[6]) -- of leases", "call('HLEN', KEYS[6]) -- of leases"},
	{921, "waiters do not keep other modes away", "shared_acquire", "count_live() > 0 or not all_places_expired(now)", "count_live() > 0"},
	{1, "force ignores the token", "shared_force", "tonumber(record.token) <= max_token", "tonumber(record.token) <= max_token + 10"},
	{1, "the token of the reply is one too high", "shared_prelude", "last_token, token_ttl = token - 1, tonumber(ms)", "last_token, token_ttl = token, tonumber(ms)"},
	{1, "a lease is rounded down", "shared_prelude", "return now + ms + 1", "return now + ms"},
	{1, "a renewal is rounded down", "shared_renew", "now + ttl + 1", "now + ttl"},
	{2, "the abandoned queue of a mutex blocks requests", "shared_acquire", "delete_abandoned_queue(redis.pcall('LLEN', KEYS[3]))", "delete_abandoned_queue(redis.pcall('ZCARD', KEYS[3]))"},
	{23, "a kept batch is free", "shared_release", "if holds and keep then", "if holds and keep == 0 then"},
	{23, "a kept batch serves waiters", "shared_release", "  allow_writes()\n", "  remove_lease(owner)\n  grant_waiters()\n"},
	{44, "a renewal finds a kept batch held", "shared_renew", " or expires_at % 1 ~= 0 then", " then"},
	{32, "a stepwise renewal finds a kept batch held", "shared_renew_key", "before > now and before % 1 == 0", "before > now"},
	{26, "a second release ends a kept batch", "shared_release", "expires_at > now and not is_kept(expires_at)", "expires_at > now"},
	{23, "a late request takes a kept batch again", "shared_acquire", "if own_expiry > now and is_kept(own_expiry) then", "if own_expiry < 0 then"},
	{23, "a kept batch is taken for the rest of its lease", "shared_release", "call('ZADD', KEYS[1], string.format('%.1f', expires_at), owner)", "call('ZADD', KEYS[1], 'GT', string.format('%.1f', expires_at), owner)"},
	{143, "the key expires before its last kept batch", "shared_release", "owner)\n  expire_with_last_lease()", "owner)"},
	{71, "the records expire before a kept batch", "shared_release", "extend_records(keep + 1000, keep + 1000)", "extend_records(keep + 1000, 1)"},
	{13, "modes of different families are not distinguished", "shared_acquire", "if stored_family and stored_family ~= family then", "if stored_family and stored_family == '' then"},
}
