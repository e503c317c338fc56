package full

import "github.com/leasewheel/leasewheel/verify/internal/mutant"

// wideMutants are mistakes that wide schedules have found in the code, or that only they can find.
var wideMutants = mutant.List{
	{
		"a poll is abandoned before the next", "lock/redisstore/wait.go",
		"pollCtx, cancel := context.WithCancel(ctx)", "pollCtx, cancel := context.WithTimeout(ctx, min(w.store.timeout, w.place/pollsPerPlace))",
	},
	{
		"Close ignores its context while connections are made", "lock/internal/rediskit/rediskit.go",
		"basic.Await(ctx, ended)", "basic.Await(context.Background(), ended)",
	},
	{
		"a lock that a quorum lost is not released", "lock/held.go",
		"\t\t_ = s.client.releaser.TryAdd(lease)", "\t\t_ = lease",
	},
	{
		"a signal needs no proof", "lock/redisstore/signals.go",
		"return subtle.ConstantTimeCompare([]byte(proof), []byte(proofOf(owner, token))) == 1", "return subtle.ConstantTimeCompare([]byte(proof), []byte(proofOf(owner, token))) <= 1",
	},
	{
		"a waiting store sees the cause of the caller's context", "lock/client.go",
		"cancel(&endedError{caller.Err()})", "cancel(context.Cause(caller))",
	},
	{
		"the end of another client counts as its own end", "lock/errors.go",
		"\tcase c.life.Err() != nil:\n\t\treturn cause\n", "\tcase errors.Is(cause, ErrClosed):\n\t\treturn ErrClosed\n",
	},
	{
		"Close frees locks that must be kept", "lock/redisstore/release_all.go",
		"l.Token == 0 || l.Keep() > 0", "l.Token == 0",
	},
}

// wideScriptMutants are such mistakes in scripts.
var wideScriptMutants = mutant.List{
	{
		"a waiter needs memory to keep its place", "lock/redisstore/lua/queue.lua",
		"  redis.call('ZREM', KEYS[4], '')\n", "",
	},
	{
		"a kept lock without waiters is free", "lock/redisstore/lua/release_fast.lua",
		"if held and not ARGV[2] and", "if held and tonumber(ARGV[2] or 0) == 0 and",
	},
	{
		"a kept lock belongs to its former owner", "lock/redisstore/lua/release.lua",
		"KEPT .. string.sub(value, #owner + 1)", "value",
	},
	{
		"a kept batch belongs to its former owner", "lock/redisstore/lua/shared_release.lua",
		"from_now(keep) - 0.5", "from_now(keep)",
	},
	{
		"a kept batch is free", "lock/redisstore/lua/shared_release.lua",
		"if holds and keep then\n", "if holds and keep == 0 then\n",
	},
}
