package redisstore

import "strings"

// slotCount is the number of slots that the keys of a Redis Cluster are parted into.
const slotCount = 1 << 14

// slotOf returns the slot of a key, as the Redis Cluster specification has it: the
// CRC-16/XMODEM of what stands between the first { and the first } after it.
func slotOf(key string) uint16 {
	if _, after, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(after, "}"); ok && tag != "" {
			key = tag
		}
	}
	var crc uint16
	for i := range len(key) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^key[i]]
	}
	return crc % slotCount
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
