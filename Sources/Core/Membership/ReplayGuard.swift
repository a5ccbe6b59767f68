import Bytes
import Model

/// What each datagram says under its seal: its receiver, and its number among its sender's datagrams. 16
/// bytes behind the packet's head.
struct DatagramMark: Hashable, Sendable {
    /// Session 0 if the sender does not know the process at the address.
    var target: SessionID
    /// From 1, over all datagrams of the sender's session to all receivers.
    var number: UInt64

    func encode(into out: inout ByteWriter) {
        out.u64(target.rawValue)
        out.u64(number)
    }

    static func read(from reader: inout ByteReader) throws(DecodeError) -> DatagramMark {
        let mark = DatagramMark(target: SessionID(try reader.u64()), number: try reader.u64())
        guard mark.number > 0 else { throw reader.fail("a datagram with the number 0") }
        return mark
    }
}

/// Which datagrams a process has taken already: a window of numbers for each sender's session, as in IPsec
/// (RFC 4303 §3.4.3), kept in a ring of words (RFC 6479) (rule: datagrams-are-believed-once).
///
/// A session is one run of a process, and none comes back. A datagram to an earlier session of this process,
/// or of a process that a later one of its name has replaced, is therefore old, whatever any clock says.
struct ReplayGuard: Sendable {
    enum Verdict: Hashable, Sendable {
        case taken
        /// The sender asked which process is at the address. The process answers, and believes nothing else
        /// in the datagram, because the datagram may have been recorded before the process began.
        case question
        case refused(Refusal)
    }

    enum Refusal: String, Hashable, Sendable {
        case repeated = "gossip that was taken before, or came too late to be told from it"
        case misdirected = "gossip for another process, or for a former session of this one"
        case replaced = "gossip of a process that a later one has replaced"
        case crowded = "gossip of more processes than are remembered"
    }

    /// Which of the last numbers came. A number below the words is too old and is refused.
    struct Window: Hashable, Sendable {
        static let wordCount: UInt64 = 8
        private(set) var highest: UInt64 = 0
        private var words = SIMD8<UInt64>()

        mutating func accept(_ number: UInt64) -> Bool {
            let (word, top) = (number >> 6, highest >> 6)
            if word > top {
                for step in 1...min(word - top, Window.wordCount) { words[Window.slot(top + step)] = 0 }
            } else if top - word >= Window.wordCount {
                return false
            }
            let bit = UInt64(1) << (number & 63)
            guard words[Window.slot(word)] & bit == 0 else { return false }
            words[Window.slot(word)] |= bit
            highest = max(highest, number)
            return true
        }

        private static func slot(_ word: UInt64) -> Int { Int(word % wordCount) }
    }

    private enum Sender: Sendable {
        case heard(Window)
        case replaced
    }

    private var senders: [SessionID: Sender] = [:]
    /// Datagrams of a session up to this one that has no window are refused: its window may be forgotten.
    private(set) var forgottenUpTo = SessionID(0)
    let sendersMax: Int

    init(sendersMax: Int) { self.sendersMax = sendersMax }

    var senderCount: Int { senders.count }

    /// - Parameter isKept: whether the guard must remember a sender when it makes room.
    mutating func judge(
        _ mark: DatagramMark, from sender: SessionID, to own: SessionID, isKept: (SessionID) -> Bool
    ) -> Verdict {
        var window = Window()
        let isNew: Bool
        switch senders[sender] {
        case .replaced: return .refused(.replaced)
        case .heard(let heard): (window, isNew) = (heard, false)
        case nil: isNew = true
        }
        guard mark.target == own || mark.target == SessionID(0) else { return .refused(.misdirected) }
        if isNew {
            guard sender > forgottenUpTo else { return .refused(.repeated) }
            guard makeRoom(isKept) else { return .refused(.crowded) }
        }
        guard window.accept(mark.number) else { return .refused(.repeated) }
        senders[sender] = .heard(window)
        return mark.target == own ? .taken : .question
    }

    /// Refuses all further datagrams of a session that a later process of the same name has replaced.
    mutating func replaced(_ session: SessionID, isKept: (SessionID) -> Bool) {
        guard senders[session] != nil || (session > forgottenUpTo && makeRoom(isKept)) else { return }
        senders[session] = .replaced
    }

    /// If all slots are taken, forgets the older half of the senders that it need not keep.
    private mutating func makeRoom(_ isKept: (SessionID) -> Bool) -> Bool {
        guard senders.count >= sendersMax else { return true }
        let others = senders.keys.filter { !isKept($0) }.sorted()
        for session in others.prefix((others.count + 1) / 2) {
            senders[session] = nil
            forgottenUpTo = max(forgottenUpTo, session)
        }
        return senders.count < sendersMax
    }

    var brokenInvariant: String? {
        senders.count > sendersMax ? "the numbers of more senders are remembered than may be" : nil
    }
}
