// One form for all ways of writing the address of a server.

package quorumstore

import (
	"net/netip"
	"path"
	"strings"
)

// canonicalAddress returns one form for all ways of writing a host:port that can be
// compared without a name server. It unifies case, leading zeros of the port, localhost
// and the unspecified address, and IPv4 in IPv6. An address without a port is the path of a
// socket, or a name.
func canonicalAddress(addr string) string {
	colon := strings.LastIndexByte(addr, ':')
	if strings.HasPrefix(addr, "/") {
		return path.Clean(addr)
	}
	if colon < 0 {
		return strings.ToLower(addr)
	}
	host, port := strings.ToLower(addr[:colon]), strings.ToLower(addr[colon+1:])
	if digits := strings.TrimLeft(port, "0"); digits != "" {
		port = digits
	}
	return canonicalHost(host) + ":" + port
}

func canonicalHost(host string) string {
	const loopback = "127.0.0.1"
	host = strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), ".")
	if host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return loopback
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if ip = ip.Unmap(); ip.IsUnspecified() { // dialing the unspecified address reaches this host
		return loopback
	}
	return ip.String()
}
