package full

import "github.com/leasewheel/leasewheel/verify/internal/mutant"

// scriptMutants are mistakes in the scripts.
var scriptMutants = mutant.List{
	{
		"a released owner is not refused", "lock/redisstore/lua/acquire.lua",
		"if redis.call('EXISTS', KEYS[5]) == 1 then", "if false then",
	},
	{
		"no tombstone is written", "lock/redisstore/lua/release.lua",
		"if tonumber(ARGV[2] or 0) > 0 then", "if false then",
	},
	{
		"a release frees the lock of any owner", "lock/redisstore/lua/release_fast.lua",
		"local held = value and string.match(value, '^(.*) %d+$') == ARGV[1]\n", "local held = value\n",
	},
	{
		"a released owner is not refused if the lock is free", "lock/redisstore/lua/acquire_fast.lua",
		"redis.call('EXISTS', KEYS[1], KEYS[3], KEYS[5]) == 0 then", "redis.call('EXISTS', KEYS[1], KEYS[3]) == 0 then",
	},
	{
		"a release without waiters does not check the queue", "lock/redisstore/lua/release_fast.lua",
		"if held and not ARGV[2] and redis.call('EXISTS', KEYS[3]) == 0 then", "if held and not ARGV[2] then",
	},
	{
		"a renewal extends the lock of any owner", "lock/redisstore/lua/renew.lua",
		"local held = values[i] == args[i + 1]", "local held = values[i]",
	},
	{
		"a renewal creates a missing lock", "lock/redisstore/lua/renew.lua",
		"local lost, wanted = {}, {}\n", "local lost, wanted = {}, {}\nfor i = 1, n do local key = keys[i] if not values[i] then call('SET', key, args[i + 1], 'PX', ttl) values[i] = args[i + 1] end end\n",
	},
	{
		"a renewal does not extend the lease", "lock/redisstore/lua/renew.lua",
		"not (gt and call('PEXPIRE', key, ttl, 'GT') == 1)", "not true",
	},
	{
		"a lock has no expiry", "lock/redisstore/lua/tokens.lua",
		"owner .. ' ' .. token_text, 'PX', ttl)", "owner .. ' ' .. token_text)",
	},
	{
		"a lock that was free has no expiry", "lock/redisstore/lua/acquire_fast.lua",
		"ARGV[1] .. ' ' .. token, 'PX', ARGV[2])", "ARGV[1] .. ' ' .. token)",
	},
	{
		"the token of a lock that was free is only the time", "lock/redisstore/lua/acquire_fast.lua",
		"if not last or #last == #token and last < token and", "if not last or",
	},
	{
		"a token loses the zeros of its microseconds", "lock/redisstore/lua/acquire_fast.lua",
		"'%d%06d'", "'%d%d'",
	},
	{
		"a token is only the time", "lock/redisstore/lua/tokens.lua",
		"token = math.max(tonumber(last) + 1, micros)", "token = micros",
	},
	{
		"a token depends only on the last one", "lock/redisstore/lua/tokens.lua",
		"  local token = micros\n", "  local token = 1\n  micros = 1\n",
	},
	{
		"a token is repeated", "lock/redisstore/lua/tokens.lua",
		"token = math.max(tonumber(last) + 1, micros)", "token = tonumber(last)",
	},
	{
		"a repeated acquire does not extend the lease", "lock/redisstore/lua/acquire.lua",
		"    redis.call('PEXPIRE', KEYS[1], ttl)\n", "",
	},
	{
		"a repeated acquire returns a new token", "lock/redisstore/lua/acquire.lua",
		"    return state and {1, token, state} or token\n  end\nelse\n", "    local new_token, now = next_token()\n    return grant(owner, new_token, now, tonumber(ttl))\n  end\nelse\n",
	},
	{
		"a lock that is taken is granted", "lock/redisstore/lua/acquire.lua",
		"  if holder == owner then", "  if holder == owner or place == 0 then",
	},
	{
		"the queue has no expiry", "lock/redisstore/lua/acquire.lua",
		"    redis.call('PEXPIRE', KEYS[3], format_int(4 * place))\n", "",
	},
	{
		"expired places are served", "lock/redisstore/lua/queue.lua",
		"    if remaining > 0 then\n      return owner, remaining", "    if true then\n      return owner, math.max(remaining, 1000)",
	},
	{
		"a release does not hand over", "lock/redisstore/lua/queue.lua",
		"  if not has_waiters() then\n    redis.call('DEL', KEYS[1])", "  if true then\n    redis.call('DEL', KEYS[1])",
	},
	{
		"readers and writers do not exclude each other", "lock/redisstore/lua/shared_prelude.lua",
		"return live == 0 or request.mode == 'r' and not write_locked()", "return live == 0 or request.mode == 'r'",
	},
	{
		"one permit too many", "lock/redisstore/lua/shared_prelude.lua",
		"return used_permits() + request.permits <= request.limit", "return used_permits() + request.permits <= request.limit + 1",
	},
	{
		"members are not checked", "lock/redisstore/lua/shared_prelude.lua",
		"    request.blocking = index_of_any(request.members, reserved)\n    if request.blocking then\n      return false\n    end\n    request.blocked_until, request.blocker, request.blocking = find_blocker(request.members)\n    return request.blocked_until == 0", "    return true",
	},
	{
		"an expired shared lease is renewed", "lock/redisstore/lua/shared_renew.lua",
		"if expires_at <= now or expires_at % 1 ~= 0 then", "if expires_at == 0 or expires_at % 1 ~= 0 then",
	},
	{
		"a shared lock expires with its first lease", "lock/redisstore/lua/shared_prelude.lua",
		"local latest = tonumber(redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2] or 0)\n  if latest > now", "local latest = tonumber(redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2] or 0)\n  if latest > now",
	},
}

// mutants are mistakes in code that the backend core does not run: in sending scripts and
// reading replies, in serving waiters, and in the kinds of locks.
var mutants = mutant.List{
	{
		"a place counts from the arrival of the signal", "lock/redisstore/wait.go",
		"w.grant(token, w.lastPollSent.Add(w.place-w.request.TTL))", "w.grant(token, time.Now())",
	},
	{
		"any signal counts", "lock/redisstore/wait.go",
		"fresh := token > w.maxToken", "fresh := token > 0",
	},
	{
		"a place counts from the answer to a poll", "lock/redisstore/wait.go",
		"\tw.lastPollSent = r.sent\n", "\tw.lastPollSent = time.Now()\n",
	},
	{
		"a grant by a poll counts from its answer", "lock/redisstore/wait.go",
		"w.grant(r.token, r.sent)", "w.grant(r.token, time.Now())",
	},
	{
		"a waiter does not poll", "lock/redisstore/wait.go",
		"\tcase <-w.timer.C:\n\t\t\tw.poll(ctx)\n", "\tcase <-w.timer.C:\n",
	},
	{
		"a second poll waits for the answer to the first", "lock/redisstore/wait.go",
		"\tw.pollAgain = false\n\tif limit", "\tif len(w.polls) > 0 {\n\t\tw.setTimer(w.pollInterval())\n\t\treturn\n\t}\n\tw.pollAgain = false\n\tif limit",
	},
	{
		"an unanswered poll is forgotten", "lock/redisstore/wait.go",
		"w.unanswered = w.unanswered || len(w.polls) > 0", "w.unanswered = false",
	},
	{
		"an unknown script is not sent in full", "lock/internal/redisnode/node.go",
		"err != nil || !unknown {", "err != nil || !unknown || try == 1 {",
	},
	{
		"the lost leases of a batch are shifted", "lock/internal/rediskit/renew.go",
		"switch denied[0].(int64) {", "switch denied[0].(int64)%int64(len(items)) + 1 {",
	},
	{
		"a failed renewal counts as successful", "lock/internal/rediskit/renew.go",
		"\tr.unknown += len(items)\n", "\tfor i := range items {\n\t\tr.out[items[i].index] = renewal.Renewed\n\t}\n",
	},
	{
		"a renewal ignores the end of its context", "lock/internal/redisnode/node.go",
		"\tfailures := n.failures.Load()\n", "\tctx = context.WithoutCancel(ctx)\n\tfailures := n.failures.Load()\n",
	},
	{
		"a request is repeated by go-redis", "lock/internal/redisnode/options.go",
		"o.MaxRetries = -1", "o.MaxRetries = 3",
	},
	{
		"a lost lock is locked again", "lock/held.go",
		"\tif err := o.held.Err(); err != nil {\n\t\treturn nil, err\n\t}\n", "",
	},
	{
		"the first Unlock releases a reentrant lock", "lock/held.go",
		"last = s.handles.Add(-1) == 0", "last = s.handles.Add(-1) >= 0",
	},
	{
		"a failed Multi keeps its locks", "lock/multi.go",
		"\t\t\tgiveBackAll(ctx, got)\n\t\t}\n\t}()", "\t\t\t_ = got\n\t\t}\n\t}()",
	},
	{
		"a Multi is valid while one of its locks is", "lock/multi_handle.go",
		"!slices.ContainsFunc(g.members, func(h *Held) bool { return !h.Valid() })", "slices.ContainsFunc(g.members, func(h *Held) bool { return h.Valid() })",
	},
	{
		"a writer stays valid during a downgrade", "lock/rwmutex.go",
		"\tentry, err := s.entry.Replace(lease, lease.TTL)\n", "\tentry, err := s.entry, error(nil)\n",
	},
}
