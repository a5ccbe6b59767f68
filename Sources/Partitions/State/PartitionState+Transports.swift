import Bytes
import Model

// The push services that reach a device, and the device's addresses there.

extension PartitionState {
    mutating func applyTransport(_ fact: Fact, record: Sequence) {
        switch fact {
        case .setTransport(let index, let transport, let time):
            set(transport, of: index, at: time, record: record)
        case .endTransport(let index, let kind, let generation):
            endTransport(kind, of: index, generation: generation)
        case .pushed(let cursors):
            for pushed in cursors {
                log.drop(pushed.devices, upTo: pushed.position, departure(&devices))
            }
        case .pushedOne(let position, let index):
            log.drop(DeviceSet(index), at: position, departure(&devices))
        default: preconditionFailure("only facts of transports come here")
        }
    }

    /// Stores an address in place of the device's former address of the same kind. The device counts as seen.
    /// An empty address says that the address is gone (rule: gone-by-generation).
    private mutating func set(_ transport: Transport, of index: UInt32, at time: WallTime, record: Sequence) {
        guard devices.find(index) != nil else { return }
        writer?.touch(device: index, self)
        // A push service that knows the device no longer has not seen the device.
        if !transport.address.isEmpty { note(index, seenOn: time.day) }
        var stored = transports[index] ?? []
        stored.removeAll { $0.transport.kind == transport.kind }
        stored.append(
            StoredTransport(transport: transport, registered: time, generation: record.rawValue))
        stored.sort { $0.transport.kind < $1.transport.kind }
        transports[index] = stored
    }

    /// Removes the address of this kind if it is still the address of this generation.
    private mutating func endTransport(_ kind: Transport.Kind, of index: UInt32, generation: UInt64) {
        guard var stored = transports[index],
            let place = stored.firstIndex(where: {
                $0.transport.kind == kind && $0.generation == generation
            })
        else { return }
        writer?.touch(device: index, self)
        stored.remove(at: place)
        transports[index] = stored.isEmpty ? nil : stored
        log.lookAgain(at: index)
    }

    /// The first law of transports that does not hold; `nil` where all do.
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
        }
        return transports.brokenInvariant
    }
}

extension ByteWriter {
    mutating func transport(_ transport: Transport) {
        u8(transport.kind.rawValue)
        string(transport.address)
    }

    mutating func stored(_ stored: StoredTransport) {
        transport(stored.transport)
        u64(UInt64(bitPattern: stored.registered.milliseconds))
        varint(stored.generation)
    }
}

extension ByteReader {
    mutating func transportKind() throws(DecodeError) -> Transport.Kind {
        guard let kind = Transport.Kind(rawValue: try u8()) else { throw fail("a transport of no kind") }
        return kind
    }

    mutating func transport() throws(DecodeError) -> Transport {
        Transport(kind: try transportKind(), address: try string(max: Transport.addressBytesMax))
    }

    mutating func stored() throws(DecodeError) -> StoredTransport {
        StoredTransport(
            transport: try transport(), registered: try wallTime(), generation: try varint())
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
        guard !list.isEmpty else { throw fail("a device without the transports that it should have") }
        return list
    }
}
