// The version of the server in a Check.

package redischeck

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
)

// version is the version of a server.
type version struct {
	product             string // "Redis" or a fork; "" if not known
	major, minor, patch int
	compatible          int // the major version of Redis whose features the server has
}

// String returns the product and the version.
func (v version) String() string {
	if v.product == "" {
		return ""
	}
	return fmt.Sprintf("%s %d.%d.%d", v.product, v.major, v.minor, v.patch)
}

// oldest is the oldest version of Redis that the store is tested on.
const oldest = 5

// fixedPatches has the first release of each line of versions that has the fix of CVE-2025-49844. The
// lines that are not here are newer, or have no such release and only fixed packages.
var fixedPatches = map[string]map[[2]int]int{
	"Redis":  {{6, 2}: 20, {7, 2}: 11, {7, 4}: 6, {8, 0}: 4, {8, 2}: 2},
	"Valkey": {{7, 2}: 11, {8, 0}: 6, {8, 1}: 4},
}

// parseVersion parses a version such as "7.0.15".
func parseVersion(product, text string) version {
	v := version{product: product}
	parts := strings.SplitN(text, ".", 3)
	if len(parts) < 3 {
		return version{}
	}
	patch, _, _ := strings.Cut(parts[2], "-")
	numbers := []*int{&v.major, &v.minor, &v.patch}
	for i, part := range []string{parts[0], parts[1], patch} {
		n, err := strconv.Atoi(part)
		if err != nil {
			return version{}
		}
		*numbers[i] = n
	}
	v.compatible = v.major
	return v
}

// infoVersion returns the version that INFO shows. The forks also name the version of Redis
// with which they are compatible.
func infoVersion(info map[string]string) version {
	v := parseVersion("Redis", info["redis_version"])
	for _, fork := range []string{"Valkey", "Redict", "Dragonfly"} {
		text := info[strings.ToLower(fork)+"_version"]
		if fork == "Dragonfly" {
			text = strings.TrimPrefix(strings.TrimPrefix(text, "df-"), "v")
		}
		if text != "" {
			compatible := v.compatible
			v = parseVersion(fork, text)
			v.compatible = compatible
			break
		}
	}
	return v
}

// versionSource is a script that returns the product and the version. Servers before Redis 7
// report neither to a script.
const versionSource = `return {redis.SERVER_NAME or 'redis', redis.SERVER_VERSION or redis.REDIS_VERSION or '', redis.REDIS_VERSION or ''}`

// tryScript runs a script. It also finds out the version if INFO does not show it.
func (c *serverCheck) tryScript(ctx context.Context) error {
	command := redisconn.NewCommand("eval", versionSource, 1, c.key)
	if err := c.do(ctx, command); err != nil {
		return err
	}
	if command.Err != nil {
		if redisconn.Refusal(command.Err.Error()) == redisconn.UnknownCommand {
			c.add(Unsafe, "no-script", command.Err.Error())
		}
		return nil // tryRights reports other errors
	}
	if items, ok := command.Reply.([]any); ok && len(items) == 3 && c.version.product == "" {
		name, _ := items[0].(string)
		text, _ := items[1].(string)
		compatible, _ := items[2].(string)
		if name != "" {
			c.version = parseVersion(strings.ToUpper(name[:1])+name[1:], text)
			c.version.compatible = parseVersion("", compatible).compatible
		}
	}
	return nil
}

// judgeVersion adds findings about the version.
func (c *serverCheck) judgeVersion() {
	v := c.version
	c.facts.Version = v.String()
	if v.product == "" {
		c.add(NotKnown, "version-old", c.why())
		return
	}
	if v.compatible >= 7 {
		c.facts.ShardedPubSub = "yes"
	} else {
		c.facts.ShardedPubSub = "no"
	}
	if v.compatible < oldest {
		c.add(Unsafe, "version-old", v.String())
	}
	if patch, ok := fixedPatches[v.product][[2]int{v.major, v.minor}]; ok && v.patch < patch {
		c.add(Warning, "version-vulnerable", fmt.Sprintf("%v, fixed in %d.%d.%d", v, v.major, v.minor, patch))
	}
}
