// The settings of the server in a Check.

package redischeck

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
)

// judge adds findings about what INFO and CONFIG GET have shown.
func (c *serverCheck) judge() {
	c.judgeVersion()
	c.judgeRole()
	c.judgeEviction()
	c.judgePersistence()
	c.judgeReplication()
	c.judgeCluster()
}

// why returns why INFO has shown nothing.
func (c *serverCheck) why() string {
	if c.infoErr != nil {
		return "INFO: " + c.infoErr.Error()
	}
	return "INFO does not show it"
}

// setting returns the value of a setting. It adds a finding if the value is not known.
func (c *serverCheck) setting(name, code string) (string, bool) {
	value, ok := c.settings[name]
	if !ok {
		c.add(NotKnown, code, "CONFIG GET "+name+" is refused")
	}
	return value, ok
}

func (c *serverCheck) judgeRole() {
	switch c.info["role"] {
	case "master":
		c.facts.Role = "master"
	case "slave", "replica":
		c.facts.Role = "replica"
		c.add(Unsafe, "replica", "the role is "+c.info["role"])
	default:
		if !c.has("replica") { // a write can have shown it
			c.add(NotKnown, "replica", c.why())
		}
	}
	if c.info["cluster_enabled"] == "1" && !c.Redis.IsCluster() {
		c.add(Unsafe, "cluster-node", "the server is a node of a cluster, and the store has a client for one server")
	}
}

func (c *serverCheck) judgeEviction() {
	policy, limit := c.info["maxmemory_policy"], c.info["maxmemory"]
	if policy == "" {
		c.add(NotKnown, "eviction", c.why())
		return
	}
	c.facts.Eviction = policy
	if policy != "noeviction" { // whatever its name: newer servers have newer policies
		severity := Unsafe
		if limit == "0" {
			severity = Warning // nothing is evicted until there is a limit
		}
		c.add(severity, "eviction", fmt.Sprintf("maxmemory-policy is %s, maxmemory is %s", policy, limit))
	}
	most, _ := strconv.ParseFloat(limit, 64)
	used, _ := strconv.ParseFloat(c.info["used_memory"], 64)
	if most > 0 && used > 0.9*most {
		c.add(Warning, "memory", fmt.Sprintf("%.0f of %s bytes are used", used, limit))
	}
}

func (c *serverCheck) judgePersistence() {
	aof := c.info["aof_enabled"]
	if aof == "" {
		c.add(NotKnown, "no-persistence", c.why())
		return
	}
	save, saveKnown := c.settings["save"]
	if saveKnown && save != "" || !saveKnown {
		c.judgeSnapshotErrors(saveKnown)
	}
	switch {
	case aof == "1":
		c.judgeFsync()
	case !saveKnown:
		c.add(NotKnown, "no-persistence", "appendonly is no, CONFIG GET save is refused")
	case save == "":
		c.facts.Persistence = "none"
		c.add(Warning, "no-persistence", `appendonly is no, save is ""`)
	default:
		c.facts.Persistence = "snapshots"
		c.add(Warning, "snapshots-only", fmt.Sprintf("appendonly is no, save is %q", save))
	}
}

func (c *serverCheck) judgeSnapshotErrors(saveKnown bool) {
	stop, ok := c.settings["stop-writes-on-bgsave-error"]
	switch {
	case ok && stop == "no":
	case !ok || !saveKnown:
		c.add(NotKnown, "snapshot-errors", "CONFIG GET save or stop-writes-on-bgsave-error is refused")
	default:
		c.add(Warning, "snapshot-errors", fmt.Sprintf("save is %q, stop-writes-on-bgsave-error is yes", c.settings["save"]))
	}
}

func (c *serverCheck) judgeFsync() {
	c.facts.Persistence = "AOF"
	if status := c.info["aof_last_write_status"]; status != "" && status != "ok" {
		c.add(Unsafe, "write-refused", "aof_last_write_status is "+status)
	}
	fsync, ok := c.setting("appendfsync", "fsync")
	if !ok {
		return
	}
	c.facts.Persistence += " " + fsync
	switch fsync {
	case "always":
	case "everysec":
		c.add(Note, "fsync", "appendfsync is everysec")
	default:
		c.add(Warning, "fsync", "appendfsync is "+fsync)
	}
}

func (c *serverCheck) judgeReplication() {
	replicas, err := strconv.Atoi(c.info["connected_slaves"])
	if err != nil {
		c.add(NotKnown, "replication", c.why())
		return
	}
	c.facts.Replicas = replicas
	if c.Replicas > 0 {
		c.judgePolicy()
		return
	}
	if replicas == 0 || c.facts.Role != "master" {
		return
	}
	_, counted := c.info["min_slaves_good_slaves"] // shown only if min-replicas-to-write is set
	least, ok := c.settings["min-replicas-to-write"]
	seen := Plural(replicas, "replica") + ", min-replicas-to-write is "
	switch {
	case counted && !ok:
		c.add(Note, "replication", seen+"set")
	case !ok:
		c.add(NotKnown, "replication", seen+"not known: CONFIG GET is refused")
	case least == "0":
		c.add(Warning, "replication", seen+"0")
	default:
		c.add(Note, "replication", seen+least)
	}
}

// judgePolicy adds findings about a store that asks the replicas itself.
func (c *serverCheck) judgePolicy() {
	seen := fmt.Sprintf("Options.Replicas.Count is %d, %s", c.Replicas, Plural(c.facts.Replicas, "replica"))
	ready := c.readyReplicas()
	if ready < c.facts.Replicas {
		seen += fmt.Sprintf(", %d of them ready", ready)
	}
	switch {
	case ready >= c.Replicas:
		c.add(Note, "replicas-asked", seen)
	case c.Require:
		c.add(Unsafe, "replicas-missing", seen)
	default:
		c.add(Warning, "replicas-missing", seen)
	}
}

// maxReplicaLag is the highest number of seconds since the last report of a replica that counts as
// ready. Replicas report every second.
const maxReplicaLag = 5

// readyReplicas returns the number of replicas that are online and have reported lately. INFO
// describes each in a line such as slave0:ip=10.0.0.2,port=6379,state=online,offset=42,lag=1.
func (c *serverCheck) readyReplicas() int {
	ready := 0
	for name, line := range c.info {
		if !strings.HasPrefix(name, "slave") {
			continue
		}
		var state, lag string
		for field := range strings.SplitSeq(line, ",") {
			switch name, value, _ := strings.Cut(field, "="); name {
			case "state":
				state = value
			case "lag":
				lag = value
			}
		}
		if seconds, err := strconv.Atoi(lag); err == nil && state == "online" && seconds <= maxReplicaLag {
			ready++
		}
	}
	return ready
}

func (c *serverCheck) judgeCluster() {
	if !c.Redis.IsCluster() {
		return
	}
	if full, ok := c.setting("cluster-require-full-coverage", "cluster-coverage"); ok && full == "yes" {
		c.add(Warning, "cluster-coverage", "cluster-require-full-coverage is yes")
	}
	if text, ok := c.setting("cluster-node-timeout", "cluster-timeout"); ok {
		ms, _ := strconv.Atoi(text)
		if timeout := time.Duration(ms) * time.Millisecond; timeout > c.TTL/6 {
			c.add(Warning, "cluster-timeout", fmt.Sprintf("cluster-node-timeout is %v, TTL %v", timeout, c.TTL))
		}
	}
}

// unservedSlots adds a finding if slots of the cluster have no master.
func (c *serverCheck) unservedSlots() {
	unserved := 0
	for slot := range redisconn.SlotCount {
		if c.Redis.Serving(uint16(slot)) == nil {
			unserved++
		}
	}
	if unserved > 0 {
		c.add(Unsafe, "slots-unserved", Plural(unserved, "slot")+" of the cluster have no master")
	}
}

// isReadOnly reports whether an error reply is that of a replica.
func isReadOnly(reply string) bool { return strings.Contains(reply, "READONLY") }
