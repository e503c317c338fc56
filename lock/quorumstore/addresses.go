// One form for all ways of writing the address of a server.

package quorumstore

import (
	"net/netip"
	"path"
	"strconv"
	"strings"
)

// canonicalAddress returns one form for all ways of writing a host:port that can be
// compared without a name server. It unifies case, leading zeros of the port, localhost
// and the unspecified address, IPv4 in IPv6, and short or numeric IPv4 addresses such as
// 127.1. An address without a port is the path of a socket, or a name.
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
		return numericHost(host)
	}
	if ip = ip.Unmap(); ip.IsUnspecified() { // dialing the unspecified address reaches this host
		return loopback
	}
	return ip.String()
}

// numericHost returns the IPv4 address for a host of one to four numbers, as inet_aton
// reads it: the last number fills all remaining bytes. It returns any other host
// unchanged.
func numericHost(host string) string {
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return host
	}
	var ip uint64
	for i, part := range parts {
		bytes := 1
		if i == len(parts)-1 {
			bytes = 5 - len(parts)
		}
		n, err := strconv.ParseUint(part, 0, 8*bytes)
		if err != nil {
			return host
		}
		ip = ip<<(8*bytes) | n
	}
	return netip.AddrFrom4([4]byte{byte(ip >> 24), byte(ip >> 16), byte(ip >> 8), byte(ip)}).String()
}
