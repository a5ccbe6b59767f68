/// A collapse key that names a share of its device's bounds: the message's sender, as a channel of a user
/// agent. Past a bound the share with most messages loses its own, and the others keep theirs.
///
/// The key is one byte that no text in UTF-8 has, the share's length, the share, and what collapses within
/// the share. Where the last is empty the message replaces no other.
public enum SharedKey {
    static let mark: UInt8 = 0xFF
    public static let shareBytesMax = 255

    /// - Precondition: `share` has at most `shareBytesMax` bytes.
    public static func make(share: [UInt8], key: [UInt8]) -> [UInt8] {
        [mark, UInt8(share.count)] + share + key
    }

    /// The share that a collapse key names; `nil` where it names none.
    public static func share(of key: [UInt8]) -> ArraySlice<UInt8>? {
        guard key.count >= 2, key[0] == mark, key.count >= 2 + Int(key[1]) else { return nil }
        return key[2..<2 + Int(key[1])]
    }

    /// Whether a message with this key replaces an older one with the same key.
    public static func collapses(_ key: [UInt8]) -> Bool {
        guard let share = share(of: key) else { return !key.isEmpty }
        return share.endIndex < key.endIndex
    }
}
