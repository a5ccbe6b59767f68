import HTTP2

/// A client's side of HTTP/2 without TLS and with prior knowledge (RFC 9113 §3.3).
final class HTTP2Connection: LoadConnection {
    private static let pendingBytesMax = 1 << 20

    private let session: LoadSession

    init(_ poller: Poller, to address: ServerAddress, handler: any StreamHandler) throws {
        session = LoadSession(handler)
        try super.init(poller, to: address)
        session.connection = self
    }

    /// Begins a request. May be called from a handler.
    func request(_ head: RequestHead, body: [UInt8], tag: Int) {
        guard isOpen else { return session.handler.ended(tag, status: 0, began: poller.now, on: self) }
        session.request(head, body: body, tag: tag, began: poller.now)
        touch()
    }

    override func receive(_ bytes: UnsafeRawBufferPointer) {
        do { try session.take(bytes) } catch { fail() }
    }

    override func produce() {
        session.produce(limit: HTTP2Connection.pendingBytesMax - pendingBytes) {
            output.append(contentsOf: $0)
        }
        if !session.wantsToGoOn { fail() }
    }

    override func lost() { session.breakAll() }
}

/// Windows are wide, so that the measured server is limited by its own work and not by this program's
/// WINDOW_UPDATE frames. A stream's tag and body are the number of its slot, from 1.
private final class LoadSession: HTTP2Session {
    private struct Slot {
        var tag = 0
        var status = 0
        var body: [UInt8] = []
        var sent = 0
        var began: UInt64 = 0
        var head: RequestHead?
    }

    private static let streamWindow: UInt32 = 16 << 20
    private static let connectionWindow: Int32 = 1 << 30

    unowned let handler: any StreamHandler
    unowned var connection: HTTP2Connection?
    private var slots: [Slot] = []
    private var freeSlots: [Int] = []

    init(_ handler: any StreamHandler) {
        self.handler = handler
        super.init(
            .client, settings: [(.streamWindow, LoadSession.streamWindow)],
            window: LoadSession.connectionWindow)
    }

    func request(_ head: RequestHead, body: [UInt8], tag: Int, began: UInt64) {
        let slot = freeSlots.popLast() ?? slots.count
        if slot == slots.count { slots.append(Slot()) }
        slots[slot] = Slot(tag: tag, body: body, began: began, head: head)
        let mark = UnsafeMutableRawPointer(bitPattern: slot + 1)
        if request(head.block, body: head.hasBody ? mark : nil, tag: mark) == nil { close(slot, status: 0) }
    }

    func breakAll() {
        for slot in slots.indices { close(slot, status: 0) }
    }

    private func close(_ slot: Int, status: Int) {
        guard let connection, slots[slot].head != nil else { return }
        let (tag, began) = (slots[slot].tag, slots[slot].began)
        slots[slot] = Slot()
        freeSlots.append(slot)
        handler.ended(tag, status: status, began: began, on: connection)
    }

    private func slot(_ stream: Int32) -> Int? { tag(of: stream).map { Int(bitPattern: $0) - 1 } }

    override func read(
        _ body: UnsafeMutableRawPointer, into target: UnsafeMutableBufferPointer<UInt8>
    ) -> BodyPart {
        let slot = Int(bitPattern: body) - 1
        return .next(of: slots[slot].body, sent: &slots[slot].sent, into: target)
    }

    override func received(_ field: HTTP2Field, of frame: HTTP2Frame) -> HTTP2Verdict {
        guard let status = field.status, let slot = slot(frame.stream) else { return .goOn }
        slots[slot].status = status
        handler.opened(slots[slot].tag, status: status)
        return .goOn
    }

    override func received(_ bytes: UnsafeBufferPointer<UInt8>, of stream: Int32) {
        if let slot = slot(stream) { handler.received(slots[slot].tag, UnsafeRawBufferPointer(bytes)) }
    }

    override func closed(_ stream: Int32, _ code: HTTP2ErrorCode) {
        if let slot = slot(stream) { close(slot, status: code == .noError ? slots[slot].status : 0) }
    }
}
