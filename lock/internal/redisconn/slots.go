package redisconn

import "strings"

// SlotCount is the number of hash slots of a Redis Cluster.
const SlotCount = 1 << 14

// SlotOf returns the hash slot of a key according to the Redis Cluster specification. The
// slot is the CRC-16/XMODEM of the hash tag, modulo SlotCount. The hash tag is the text
// between the first { and the next }. If it is empty or missing, the whole key counts.
func SlotOf(key string) uint16 {
	if _, after, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(after, "}"); ok && tag != "" {
			key = tag
		}
	}
	var crc uint16
	for i := range len(key) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^key[i]]
	}
	return crc % SlotCount
}

var crcTable = func() (table [256]uint16) {
	const polynomial = 0x1021
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= polynomial
			}
		}
		table[i] = crc
	}
	return table
}()
