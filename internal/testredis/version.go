// The version of the server, and the arguments and rules that depend on it.

package testredis

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Since reports whether the redis-server in PATH has the features of that version of Redis.
// The forks continue the versions of Redis: KeyDB from 6.2, Redict and Valkey from 7.2. A
// server without a readable version counts as the newest.
func Since(major, minor int) bool {
	v := version()
	return v[0] > major || v[0] == major && v[1] >= minor
}

// AllowDebug returns the args that allow the command DEBUG. Before Redis 7 none are needed.
func AllowDebug() []string {
	if Since(7, 0) {
		return []string{"--enable-debug-command", "yes"}
	}
	return nil
}

// ChannelRules returns the ACL rules, without those for channels if the server is older than
// Redis 6.2. Such servers let every user use every channel, and Redis 6.2 does so until
// "resetchannels".
func ChannelRules(rules ...any) []any {
	if Since(7, 0) {
		return rules
	}
	if Since(6, 2) {
		at := slices.IndexFunc(rules, func(rule any) bool { return strings.HasPrefix(fmt.Sprint(rule), "&") })
		if at < 0 {
			return rules
		}
		return slices.Insert(slices.Clone(rules), at, any("resetchannels"))
	}
	var list []any
	for _, rule := range rules {
		text, ok := rule.(string)
		if !ok || !strings.HasPrefix(text, "&") && text != "resetchannels" && text != "allchannels" {
			list = append(list, rule)
		}
	}
	return list
}

// version returns the major and minor version of the server.
var version = sync.OnceValue(func() [2]int {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return newest
	}
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		return newest
	}
	return parseVersion(string(out))
})

var newest = [2]int{1 << 30, 0}

func parseVersion(line string) [2]int {
	found := regexp.MustCompile(`v=(\d+)\.(\d+)`).FindStringSubmatch(line)
	if found == nil {
		return newest
	}
	major, _ := strconv.Atoi(found[1])
	minor, _ := strconv.Atoi(found[2])
	return [2]int{major, minor}
}
