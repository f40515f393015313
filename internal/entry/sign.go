package entry

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
)

// A Signer proves that a stored value was written by somebody who has one of its keys, for the place where it
// is read: a value that was moved to another place does not pass. A nil Signer signs nothing and passes everything.
type Signer struct {
	Keys [][]byte // all are accepted, the first signs
}

// SignatureLen is by how much a signed value is longer.
const SignatureLen = sha256.Size

// Seal returns the value with its signature for a location behind it. It may take raw over.
func (s *Signer) Seal(loc string, raw []byte) []byte {
	if s == nil {
		return raw
	}
	return append(raw, signature(s.Keys[0], loc, raw)...)
}

// Open checks the signature of what is stored at a location and returns the value without it. It looks at nothing else.
func (s *Signer) Open(loc string, signed []byte) (raw []byte, ok bool) {
	if s == nil {
		return signed, true
	}
	at := len(signed) - SignatureLen
	if at < 0 {
		return nil, false
	}
	for _, key := range s.Keys {
		if hmac.Equal(signed[at:], signature(key, loc, signed[:at])) {
			return signed[:at:at], true
		}
	}
	return nil, false
}

func signature(key []byte, loc string, raw []byte) []byte {
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write(binary.AppendUvarint([]byte("herdgate entry\x00"), uint64(len(loc))))
	_, _ = mac.Write([]byte(loc))
	_, _ = mac.Write(raw)
	return mac.Sum(nil)
}
