/// A datagram as it was sent.
final class SentDatagram {
    let bytes: [UInt8]
    let to: Int
    /// The processes that took it.
    var taken: Set<UInt64> = []
    init(_ bytes: [UInt8], to: Int) {
        self.bytes = bytes
        self.to = to
    }
}

/// What somebody who hears every datagram, and remembers some 256 of them, may send again.
struct HeardDatagrams {
    private var heard: [SentDatagram] = []

    /// One more is heard; past 256 it takes the place of another.
    ///
    /// - Parameter roll: A number below its argument.
    mutating func hear(_ datagram: SentDatagram, _ roll: (UInt64) -> UInt64) {
        if heard.count < 256 {
            heard.append(datagram)
        } else {
            heard[Int(roll(256))] = datagram
        }
    }

    /// One of them; something was heard before.
    func any(_ roll: (UInt64) -> UInt64) -> SentDatagram { heard[Int(roll(UInt64(heard.count)))] }
}
