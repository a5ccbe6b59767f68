import Bytes
import Model

// The push services that reach a device, and the device's addresses there.

extension PartitionState {
    /// Stores an address in place of the device's former address of the same kind. The device counts as seen.
    mutating func set(_ transport: Transport, of index: UInt32, at time: WallTime, record: Sequence) {
        guard devices.find(index) != nil else { return }
        writer?.touch(device: index, self)
        note(index, seenOn: time.day)
        var stored = transports[index] ?? []
        let former = stored.first { $0.transport.kind == transport.kind }
        if former == nil {
            let kinds = transports.kinds(of: index)
            log.losing(.expired) { $0.end(for: index, by: kinds, at: time, departure(&devices)) }
        }
        stored.removeAll { $0.transport.kind == transport.kind }
        var next = StoredTransport(transport: transport, registered: time, generation: record.rawValue)
        // What the previous address got is not pushed again, unless that address is gone.
        if transport.keepsMessages, let former, !former.isGone { next.pushedUpTo = former.pushedUpTo }
        stored.append(next)
        stored.sort { $0.transport.kind < $1.transport.kind }
        transports[index] = stored
    }

    /// The service has what waits for the device up to `position` (rule: kept-until-acknowledged).
    mutating func notePushed(_ kind: Transport.Kind, of index: UInt32, upTo position: Position) {
        guard var stored = transports[index],
            let at = stored.firstIndex(where: { $0.transport.kind == kind }),
            stored[at].transport.keepsMessages, stored[at].pushedUpTo < position
        else { return }
        writer?.touch(device: index, self)
        stored[at].pushedUpTo = position
        transports[index] = stored
    }

    /// The position up to which push services have what waits for a device that acknowledges itself,
    /// whichever of its addresses got it: another such address goes on from there. An address for which the
    /// device does not acknowledge gets all that waits, because what waits is not delivered otherwise.
    func pushedUpTo(_ index: UInt32, by transport: Transport) -> Position {
        guard transport.keepsMessages else { return .zero }
        return transports[index]?.reduce(.zero) { max($0, $1.pushedUpTo) } ?? .zero
    }

    /// What an address got may be lost with it: the device's other addresses get from the beginning what
    /// still waits (rule: kept-until-acknowledged).
    private mutating func forgetPushed(_ index: UInt32, endOf kind: Transport.Kind) {
        guard var stored = transports[index],
            stored.contains(where: { $0.transport.kind == kind && $0.pushedUpTo > .zero })
        else { return }
        for at in stored.indices { stored[at].pushedUpTo = .zero }
        transports[index] = stored
    }

    /// Removes the address of this kind if it is still the address of this generation.
    mutating func endTransport(_ kind: Transport.Kind, of index: UInt32, generation: UInt64) {
        func find(in stored: [StoredTransport]) -> Int? {
            stored.firstIndex { $0.transport.kind == kind && $0.generation == generation }
        }
        guard find(in: transports[index] ?? []) != nil else { return }
        writer?.touch(device: index, self)
        forgetPushed(index, endOf: kind)
        guard var stored = transports[index], let at = find(in: stored) else { return }
        stored.remove(at: at)
        transports[index] = stored.isEmpty ? nil : stored
        log.lookAgain(at: index)
    }

    /// Sets or takes back the mark of an address that is still the address of this generation (rule:
    /// gone-by-generation).
    mutating func set(
        _ mark: AddressMark?, _ kind: Transport.Kind, of index: UInt32, generation: UInt64
    ) {
        func find(in stored: [StoredTransport]) -> Int? {
            stored.firstIndex { $0.transport.kind == kind && $0.generation == generation }
        }
        guard find(in: transports[index] ?? []) != nil else { return }
        writer?.touch(device: index, self)
        if let mark, mark.state != .doubted { forgetPushed(index, endOf: kind) }
        guard var stored = transports[index], let at = find(in: stored) else { return }
        stored[at].mark = mark
        transports[index] = stored
        // Messages that wait for this way alone wait no more.
        if mark?.state == .unused { log.lookAgain(at: index) }
    }

    /// The first invariant of transports that does not hold; `nil` if all do.
    var brokenInTransports: String? {
        for row in transports.all {
            let (index, stored) = (row.index, row.list)
            if devices.find(index) == nil { return "device \(index) is gone, and has a transport" }
            if stored.isEmpty { return "device \(index) has an empty list of transports" }
            if zip(stored, stored.dropFirst()).contains(where: { $0.transport.kind >= $1.transport.kind }) {
                return "device \(index) has transports out of order"
            }
            if stored.contains(where: { $0.transport.address.count > Transport.addressBytesMax }) {
                return "device \(index) has an address that is too long"
            }
            if stored.contains(where: { $0.generation > applied.next.rawValue }) {
                return "device \(index) has an address of a record to come"
            }
            if stored.contains(where: { $0.pushedUpTo > log.last }) {
                return "device \(index) was pushed what the log does not have"
            }
            if stored.contains(where: { !$0.transport.keepsMessages && $0.pushedUpTo > .zero }) {
                return "device \(index) has a mark of pushes, and does not acknowledge itself"
            }
        }
        return transports.brokenInvariant
    }
}

extension ByteWriter {
    mutating func transport(_ transport: Transport, isMarked: Bool = false) {
        let keeps = transport.keepsMessages ? Transport.keepsMessagesBit : 0
        u8(transport.kind.rawValue | keeps | (isMarked ? Transport.markBit : 0))
        string(transport.address)
    }

    /// 0 if there is none.
    mutating func mark(_ mark: AddressMark?) {
        guard let mark else { return u8(0) }
        u8(mark.state.rawValue)
        u64(UInt64(bitPattern: mark.since.milliseconds))
        u64(mark.setting)
    }

    mutating func stored(_ stored: StoredTransport) {
        transport(stored.transport, isMarked: stored.mark != nil)
        u64(UInt64(bitPattern: stored.registered.milliseconds))
        varint(stored.generation)
        if stored.transport.keepsMessages { varint(stored.pushedUpTo.rawValue) }
        if stored.mark != nil { mark(stored.mark) }
    }
}

extension Transport {
    /// Beside the kind: whether the device acknowledges itself.
    fileprivate static let keepsMessagesBit: UInt8 = 0x80
    /// Beside the kind of a stored address: whether a mark follows.
    fileprivate static let markBit: UInt8 = 0x40
}

extension ByteReader {
    mutating func transportKind() throws(DecodeError) -> Transport.Kind {
        try transportKind(try u8())
    }

    private func transportKind(_ byte: UInt8) throws(DecodeError) -> Transport.Kind {
        guard let kind = Transport.Kind(rawValue: byte) else { throw fail("a transport of no kind") }
        return kind
    }

    mutating func transport() throws(DecodeError) -> Transport { try transport(try u8()) }

    private mutating func transport(_ byte: UInt8) throws(DecodeError) -> Transport {
        Transport(
            kind: try transportKind(byte & ~Transport.keepsMessagesBit),
            address: try string(max: Transport.addressBytesMax),
            keepsMessages: byte & Transport.keepsMessagesBit != 0)
    }

    mutating func mark() throws(DecodeError) -> AddressMark? {
        let byte = try u8()
        guard byte != 0 else { return nil }
        guard let state = AddressMark.State(rawValue: byte) else { throw fail("a mark of no state") }
        return AddressMark(state, since: try wallTime(), setting: try u64())
    }

    mutating func stored() throws(DecodeError) -> StoredTransport {
        let byte = try u8()
        var stored = StoredTransport(
            transport: try transport(byte & ~Transport.markBit), registered: try wallTime(),
            generation: try varint())
        if stored.transport.keepsMessages { stored.pushedUpTo = try position() }
        if byte & Transport.markBit != 0 { stored.mark = try mark() }
        return stored
    }

    /// The transports of one device in a snapshot of everything up to `applied`.
    mutating func transports(_ applied: Sequence) throws(DecodeError) -> [StoredTransport] {
        var list: [StoredTransport] = []
        for _ in 0..<(try count(max: Transport.Kind.allCases.count, elementBytesMin: 11)) {
            let next = try stored()
            guard list.last.map({ $0.transport.kind < next.transport.kind }) ?? true else {
                throw fail("transports out of order")
            }
            guard next.generation <= applied.rawValue else { throw fail("an address of a later record") }
            list.append(next)
        }
        return list
    }
}
