/// A sent datagram.
final class SentDatagram {
    let bytes: [UInt8]
    let to: Int
    /// The processes that believed the datagram.
    var taken: Set<UInt64> = []
    init(_ bytes: [UInt8], to: Int) {
        self.bytes = bytes
        self.to = to
    }
}

/// The datagrams of an eavesdropper, which hears all, remembers 256 of them, and may repeat these.
struct HeardDatagrams {
    private var heard: [SentDatagram] = []

    /// Notes one more datagram; past 256 it takes the place of another.
    ///
    /// - Parameter roll: Draws a number below its argument.
    mutating func hear(_ datagram: SentDatagram, _ roll: (UInt64) -> UInt64) {
        if heard.count < 256 {
            heard.append(datagram)
        } else {
            heard[Int(roll(256))] = datagram
        }
    }

    /// One of the datagrams; there must be one.
    func any(_ roll: (UInt64) -> UInt64) -> SentDatagram { heard[Int(roll(UInt64(heard.count)))] }
}
