// Redirections, and the addresses that nodes report.

package redisconn

import (
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// redirection is a MOVED or ASK reply of a node. The node has not executed the command.
type redirection struct {
	addr   string
	asking bool // ASK: only this command is redirected, and ASKING must precede it
}

// redirected reports whether an error of the node with address from is a redirection.
func redirected(err error, from string) (redirection, bool) {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return redirection{}, false
	}
	words := strings.Fields(reply.Error())
	if len(words) != 3 || words[0] != "MOVED" && words[0] != "ASK" {
		return redirection{}, false
	}
	addr, ok := resolveAddr(from, words[2])
	return redirection{addr: addr, asking: words[0] == "ASK"}, ok
}

// resolveAddr returns the address of a node as the node source has reported it. An unknown
// host or port is that of source. A loopback address that a remote node reports is that of
// source as well, because it must not lead to the host of this process.
func resolveAddr(source, addr string) (string, bool) {
	colon := strings.LastIndexByte(addr, ':') // IPv6 addresses come without brackets
	if colon < 0 {
		return "", false
	}
	host, port := strings.Trim(addr[:colon], "[]"), addr[colon+1:]
	sourceHost, sourcePort, err := net.SplitHostPort(source)
	if err == nil {
		if host == "" || host == "?" || isLoopback(host) && !isLoopback(sourceHost) {
			host = sourceHost
		}
		if port == "0" { // the node accepts only TLS
			port = sourcePort
		}
	}
	return net.JoinHostPort(host, port), host != ""
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
