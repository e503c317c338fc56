package whole

import "github.com/leasewheel/leasewheel/verify/mutant"

// scriptMutants are mistakes in the scripts.
var scriptMutants = mutant.List{
	{
		"a released owner is not refused", "lock/redisstore/lua/acquire.lua",
		"if redis.call('EXISTS', KEYS[5]) == 1 then", "if false then",
	},
	{
		"no tombstone is written", "lock/redisstore/lua/release.lua",
		"if tonumber(ARGV[2]) > 0 then", "if false then",
	},
	{
		"a release is of anyone's lock", "lock/redisstore/lua/release_free.lua",
		"local held = value and string.sub(value, 1, #ARGV[1] + 1) == ARGV[1] .. ' '\n  and string.find(value, '^%d+$', #ARGV[1] + 2)\n", "local held = value\n",
	},
	{
		"a released owner is not refused where all is free", "lock/redisstore/lua/acquire_free.lua",
		"if redis.call('EXISTS', KEYS[1], KEYS[3], KEYS[5]) == 0 then", "if redis.call('EXISTS', KEYS[1], KEYS[3]) == 0 then",
	},
	{
		"a release where nobody waits does not look at the queue", "lock/redisstore/lua/release_free.lua",
		"if held and ARGV[2] == '0' and redis.call('EXISTS', KEYS[3]) == 0 then", "if held and ARGV[2] == '0' then",
	},
	{
		"a renewal is of anyone's lock", "lock/redisstore/lua/renew.lua",
		"if values[i] ~= args[i + 1] or call", "if not values[i] or call",
	},
	{
		"a renewal creates what is not there", "lock/redisstore/lua/renew.lua",
		"local lost = {}\n", "local lost = {}\nfor i, key in ipairs(keys) do if not values[i] then call('SET', key, args[i + 1], 'PX', ttl) values[i] = args[i + 1] end end\n",
	},
	{
		"a renewal forgets the time", "lock/redisstore/lua/renew.lua",
		"or call('PEXPIRE', key, ttl) == 0", "",
	},
	{
		"a lock has no end", "lock/redisstore/lua/tokens.lua",
		"owner .. ' ' .. shown, 'PX', px)", "owner .. ' ' .. shown)",
	},
	{
		"a token is the time alone", "lock/redisstore/lua/tokens.lua",
		"new = math.max(tonumber(last) + 1, us)", "new = us",
	},
	{
		"a token counts from the last one alone", "lock/redisstore/lua/tokens.lua",
		"  local new = us\n", "  local new = 1\n  us = 1\n",
	},
	{
		"a token repeats", "lock/redisstore/lua/tokens.lua",
		"new = math.max(tonumber(last) + 1, us)", "new = tonumber(last)",
	},
	{
		"the holder asks again and gets no time", "lock/redisstore/lua/acquire.lua",
		"    redis.call('PEXPIRE', KEYS[1], ttl)\n", "",
	},
	{
		"the holder asks again and gets a new token", "lock/redisstore/lua/acquire.lua",
		"    return {1, mark}\n", "    local new, now = token()\n    return {1, grant(owner, new, now, tonumber(ttl), memory)}\n",
	},
	{
		"a lock that is taken is granted", "lock/redisstore/lua/acquire.lua",
		"  if holder == owner then", "  if holder == owner or place == 0 then",
	},
	{
		"the queue has no end", "lock/redisstore/lua/acquire.lua",
		"    redis.call('PEXPIRE', KEYS[3], text(4 * place))\n", "",
	},
	{
		"those who have gone are served", "lock/redisstore/lua/queue.lua",
		"if ends and tonumber(ends) > now then\n      return owner, math.min(tonumber(ends), LATEST) - now", "if ends then\n      return owner, math.max(tonumber(ends) - now, 1000)",
	},
	{
		"a release does not hand over", "lock/redisstore/lua/queue.lua",
		"  if not queued() then\n    redis.call('DEL', KEYS[1])", "  if true then\n    redis.call('DEL', KEYS[1])",
	},
	{
		"readers and writers do not know of each other", "lock/redisstore/lua/shared_prelude.lua",
		"return live == 0 or wish.mode == 'r' and not writing()", "return live == 0 or wish.mode == 'r'",
	},
	{
		"one permit too many", "lock/redisstore/lua/shared_prelude.lua",
		"return live < wish.limit", "return live <= wish.limit",
	},
	{
		"members are not looked at", "lock/redisstore/lua/shared_prelude.lua",
		"return not any(wish.list, wanted) and blocked(wish.list) == 0", "return true",
	},
	{
		"a shared lease that has ended is renewed", "lock/redisstore/lua/shared_renew.lua",
		"if type(ends) ~= 'string' or tonumber(ends) <= now then", "if type(ends) ~= 'string' then",
	},
	{
		"a shared lock ends with the first of its leases", "lock/redisstore/lua/shared_prelude.lua",
		"local latest = tonumber(call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2] or 0)\n  if latest > now", "local latest = tonumber(call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2] or 0)\n  if latest > now",
	},
}

// mutants are mistakes in what sends the scripts and reads their answers, in how waiters
// are served, and in the kinds of locks: where the simulation of the core has nothing of
// its own.
var mutants = mutant.List{
	{
		"a signal counts from when it comes", "lock/redisstore/wait.go",
		"w.lease(token, w.anchor.Add(w.place-w.request.TTL))", "w.lease(token, time.Now())",
	},
	{
		"any signal counts", "lock/redisstore/wait.go",
		"fresh := token > w.mark", "fresh := token > 0",
	},
	{
		"an answered poll counts from its answer", "lock/redisstore/wait.go",
		"\tw.anchor = r.sent\n", "\tw.anchor = time.Now()\n",
	},
	{
		"a grant by a poll counts from its answer", "lock/redisstore/wait.go",
		"return w.lease(r.token, r.sent), nil", "return w.lease(r.token, time.Now()), nil",
	},
	{
		"a waiter does not poll", "lock/redisstore/wait.go",
		"\tcase <-w.timer.C:\n\t\t\tw.poll(ctx)", "\tcase <-w.timer.C:\n",
	},
	{
		"a poll is waited for as long as any request", "lock/redisstore/wait.go",
		"bound = min(bound, w.place/pollsPerPlace)", "_ = w.place",
	},
	{
		"a poll under way is forgotten", "lock/redisstore/wait.go",
		"w.unanswered = w.unanswered || w.polling", "w.unanswered = false",
	},
	{
		"a script that is not known is not sent in full", "lock/redisstore/node.go",
		"\tif isNoScript(err) {\n", "\tif false {\n",
	},
	{
		"a renewal that is not known is not sent in full", "lock/redisstore/round.go",
		"again = again || !p.answered", "again = false",
	},
	{
		"the lost leases of a batch are shifted", "lock/redisstore/round.go",
		"out[items[index.(int64)-1].index] = renewal.Lost", "out[items[int(index.(int64))%len(items)].index] = renewal.Lost",
	},
	{
		"a renewal that failed counts as done", "lock/redisstore/renew.go",
		"\t\tif r.err != nil {\n", "\t\tif r.err != nil {\n\t\t\tfor _, it := range r.items {\n\t\t\t\tout[it.index] = renewal.Renewed\n\t\t\t}\n",
	},
	{
		"a renewal has the context of nobody", "lock/redisstore/conn.go",
		"ctx, cancel := context.WithTimeoutCause(ctx, bound, noAnswerError(bound))\n\tdefer cancel() // one", "ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), bound, noAnswerError(bound))\n\tdefer cancel() // one",
	},
	{
		"a request is repeated by go-redis", "lock/redisstore/conn.go",
		"o.MaxRetries = -1", "o.MaxRetries = 3",
	},
	{
		"a lock that was lost is entered", "lock/ownership.go",
		"\tif err := o.held.Err(); err != nil {\n\t\treturn nil, err\n\t}\n", "",
	},
	{
		"the first Unlock gives a reentrant lock back", "lock/holding.go",
		"if s.handles.Add(-1) == 0 {", "if s.handles.Add(-1) >= 0 {",
	},
	{
		"a Multi keeps what it got when it fails", "lock/multi.go",
		"\t\t\tgiveBack(ctx, got)\n\t\t}\n\t}()", "\t\t\t_ = got\n\t\t}\n\t}()",
	},
	{
		"a Multi is valid while one of its locks is", "lock/group.go",
		"return !slices.ContainsFunc(g.members, func(h *Held) bool { return !h.Valid() })", "return slices.ContainsFunc(g.members, func(h *Held) bool { return h.Valid() })",
	},
	{
		"a writer stays valid while it is turned", "lock/rwmutex.go",
		"\tentry, err := s.entry.Pass(lease)\n", "\tentry, err := s.entry, error(nil)\n",
	},
}
