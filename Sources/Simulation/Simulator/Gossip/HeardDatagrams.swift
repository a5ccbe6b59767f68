import Catalog

/// A sent datagram.
final class SentDatagram {
    let bytes: [UInt8]
    let to: Int
    /// The key that seals the datagram; see `SimulatedProcess.key`.
    let key: ClusterSecrets.Derivation?
    /// The processes that believed the datagram.
    var taken: Set<UInt64> = []
    init(_ bytes: [UInt8], to: Int, key: ClusterSecrets.Derivation? = nil) {
        self.bytes = bytes
        self.to = to
        self.key = key
    }
}

/// The datagrams of an eavesdropper, which receives all, remembers 256 of them, and may repeat these.
struct HeardDatagrams {
    private var recorded: [SentDatagram] = []

    /// Notes one more datagram; past 256 it takes the place of another.
    ///
    /// - Parameter roll: Draws a number below its argument.
    mutating func hear(_ datagram: SentDatagram, _ roll: (UInt64) -> UInt64) {
        if recorded.count < 256 {
            recorded.append(datagram)
        } else {
            recorded[Int(roll(256))] = datagram
        }
    }

    /// One of the datagrams; there must be one.
    func any(_ roll: (UInt64) -> UInt64) -> SentDatagram { recorded[Int(roll(UInt64(recorded.count)))] }
}
