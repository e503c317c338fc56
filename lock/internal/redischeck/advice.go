// The advice for each finding of Check.

package redischeck

// advice is what a finding means for locks, and what to do about it.
type advice struct{ means, do string }

// advised has the advice for each code. The table in OPERATIONS.md has the same codes.
var advised = map[string]advice{
	"unreachable": {
		"No lock can be acquired, and those that are held are lost when their deadlines pass.",
		"Check the address, the network and the server's log.",
	},
	"login": {
		"The server refuses the user or the password, so it executes no request.",
		"Set Username and Password in the redis.Options, or in the URL.",
	},
	"sentinel": {
		"A Sentinel keeps no locks. It only names the master that does.",
		"Give the store a client made by redis.NewFailoverClient, with this address in SentinelAddrs.",
	},
	"unfinished": {
		"The server may be unsafe in ways that the check has not reached.",
		"Check again, with more time.",
	},
	"replica": {
		"A replica refuses all writes, so no lock can be acquired, renewed or released.",
		"Give the store the address of the master, or a client made by redis.NewFailoverClient.",
	},
	"cluster-node": {
		"Requests for locks in slots of other nodes fail.",
		"Give the store a client made by redis.NewClusterClient.",
	},
	"slots-unserved": {
		"Locks in these slots cannot be acquired, renewed or released.",
		"See redis-cli --cluster check.",
	},
	"write-refused": {
		"No lock can be acquired. If the server refuses all writes, held locks are lost when their deadlines pass.",
		"Remove the cause that the server names.",
	},
	"no-script": {
		"The store needs Lua scripts (EVAL). Some servers are built without them: Valkey 9.1 and later can be, and so are some proxies.",
		"Load the Lua module of the server, or use another server.",
	},
	"version-old": {
		"The store is tested on Redis 5 and later, and on their forks.",
		"Use a later version.",
	},
	"version-vulnerable": {
		"Anyone who may run scripts can run code in the server (CVE-2025-49844). The users of locks may run scripts.",
		"Install the fixed release, or a package that says that it has the fix.",
	},
	"eviction": {
		"The server may delete locks that are held, and others then get them. All keys of a lock have a TTL, so volatile-* evicts them first.",
		"Set maxmemory-policy to noeviction.",
	},
	"memory": {
		"A server that is out of memory grants no locks. It still renews and releases the held ones.",
		"Raise maxmemory, or remove other data.",
	},
	"no-persistence": {
		"A restart forgets all locks. Others can get them at once; the holders are told within a third of the TTL. A master that restarts empty also empties its replicas.",
		"Set appendonly to yes.",
	},
	"snapshots-only": {
		"A restart forgets the locks and releases since the last snapshot: held locks are free, and released ones are taken until their TTL ends.",
		"Set appendonly to yes.",
	},
	"fsync": {
		"A crash of the machine forgets the latest writes: one or two seconds of them with appendfsync everysec, up to half a minute with no. Others can get these locks.",
		"Set appendfsync to always if a crash of the machine must not cost a lock, or use fencing tokens.",
	},
	"snapshot-errors": {
		"If a snapshot fails, for example because the disk is full, the server refuses all writes (MISCONF) and all locks are lost.",
		`Set stop-writes-on-bgsave-error to no, or save to "".`,
	},
	"replication": {
		"The server confirms a lock before a replica has it. A fail-over forgets the locks that the promoted replica lacks, and others can get them.",
		"Set Options.Replicas of the store, or min-replicas-to-write to 1 and min-replicas-max-lag to a few seconds. Use fencing tokens in any case: a replica that has confirmed a lock may not be the one that is promoted.",
	},
	"replicas-asked": {
		"A lock counts only when replicas have it, if Options.Replicas.Require is set. A fail-over to a replica that has not confirmed it forgets the lock all the same.",
		"Require refuses a lock that too few replicas have confirmed, and Renewals asks for each renewal, too. Use fencing tokens in any case.",
	},
	"replicas-missing": {
		"Fewer replicas than Options.Replicas.Count can confirm a lock: they are not connected, still copy the data, or do not answer. With Require, no lock can be acquired.",
		"Start more replicas, wait until they are online, or lower Count.",
	},
	"cluster-coverage": {
		"If one master is down, the other masters refuse their locks too.",
		"Set cluster-require-full-coverage to no.",
	},
	"cluster-timeout": {
		"A replica takes over after about one and a half times this time. Locks are lost in a fail-over that takes longer than a third of their TTL.",
		"Set cluster-node-timeout to a sixth of the TTL or less, or use a longer TTL.",
	},
	"rights-locks": {
		"No lock can be acquired, or held locks cannot be renewed or released.",
		giveCommands,
	},
	"rights-waiting": {
		"A Lock that has to wait fails.",
		giveCommands,
	},
	"no-messages": {
		"Waiters poll: they learn of a hand-over up to a third of Options.Place late.",
		"Give the user the rights, or use a server or a proxy with PUBLISH and SUBSCRIBE.",
	},
	"rights-messages": {
		"Waiters learn of a hand-over by their next poll, up to a third of Options.Place late.",
		giveCommands,
	},
	"rights-sharing": {
		"RWMutex, Semaphore and Batch fail.",
		giveCommands,
	},
	"rights-inspecting": {
		"Inspect and ForceRelease need lrange, and List needs scan.",
		giveCommands,
	},
	"rights-replicas": {
		"The replicas cannot be asked. With Options.Replicas.Require, no lock can be acquired.",
		"Give the user the command, or leave Options.Replicas empty.",
	},
	"rights-explaining": {
		"No lock is at risk. A loss cannot name a fail-over or a restart of the server as its cause, except a fail-over of a cluster, and List does not notice that the server was restarted or replaced.",
		giveCommands,
	},
	"rights-cluster": {
		"Requests fail while a slot moves to another node.",
		giveCommands,
	},
	"clock-offset": {
		"The clocks of the server and of this host differ, so one of them is wrong and may be stepped. Leases do not need equal clocks, but a step of the server's clock ends leases before their holders are told, or lengthens those of dead processes.",
		"Check NTP on both hosts. Let it slew the clock of the server (chrony with makestep only at the start).",
	},
	"round-trip": {
		"Renewals need an answer within a third of the TTL, twice. Slow answers leave little time for a second try.",
		"Use a longer TTL, or a server that is closer or less busy.",
	},
}

// giveCommands is the advice for rights that the check could not try. serverCheck.allow replaces it.
const giveCommands = "Give the user the rights in SECURITY.md."
