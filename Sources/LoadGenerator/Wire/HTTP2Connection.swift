import CNghttp2

/// A client's side of HTTP/2 without TLS and with prior knowledge (RFC 9113 §3.3).
///
/// Windows are wide, so that the measured server is limited by its own work and not by this program's
/// WINDOW_UPDATE frames.
final class HTTP2Connection: LoadConnection {
    private struct Slot {
        var tag = 0
        var status = 0
        var body: [UInt8] = []
        var offset = 0
        var began: UInt64 = 0
        var head: RequestHead?
    }

    private static let streamWindow: UInt32 = 16 << 20
    private static let connectionWindow: Int32 = 1 << 30
    private static let pendingBytesMax = 1 << 20

    private unowned let handler: any StreamHandler
    private var session: OpaquePointer?
    private var slots: [Slot] = []
    private var freeSlots: [Int] = []
    private(set) var openStreams = 0

    init(_ poller: Poller, to address: ServerAddress, handler: any StreamHandler) throws {
        self.handler = handler
        try super.init(poller, to: address)
        nghttp2_session_client_new(
            &session, HTTP2Connection.callbacks, Unmanaged.passUnretained(self).toOpaque())
        var settings = [
            nghttp2_settings_entry(
                settings_id: Int32(NGHTTP2_SETTINGS_ENABLE_PUSH.rawValue), value: 0),
            nghttp2_settings_entry(
                settings_id: Int32(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE.rawValue),
                value: HTTP2Connection.streamWindow),
        ]
        nghttp2_submit_settings(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), &settings, settings.count)
        nghttp2_session_set_local_window_size(
            session, UInt8(NGHTTP2_FLAG_NONE.rawValue), 0, HTTP2Connection.connectionWindow)
    }

    deinit { nghttp2_session_del(session) }

    /// Begins a request. May be called from a handler.
    func request(_ head: RequestHead, body: [UInt8], tag: Int) {
        guard isOpen else { return handler.ended(tag, status: 0, began: poller.now, on: self) }
        let slot = freeSlots.popLast() ?? slots.count
        if slot == slots.count { slots.append(Slot()) }
        slots[slot].tag = tag
        slots[slot].status = 0
        slots[slot].body = body
        slots[slot].offset = 0
        slots[slot].began = poller.now
        slots[slot].head = head
        let mark = UnsafeMutableRawPointer(bitPattern: slot + 1)
        var provider = nghttp2_data_provider()
        provider.source.ptr = mark
        provider.read_callback = HTTP2Connection.readBody
        let stream =
            head.hasBody
            ? nghttp2_submit_request(session, nil, head.vector, head.count, &provider, mark)
            : nghttp2_submit_request(session, nil, head.vector, head.count, nil, mark)
        openStreams += 1
        if stream < 0 { return close(slot, broken: true) }
        touch()
    }

    override func receive(_ bytes: UnsafeRawBufferPointer) {
        let taken = nghttp2_session_mem_recv(
            session, bytes.bindMemory(to: UInt8.self).baseAddress, bytes.count)
        if taken != bytes.count { fail() }
    }

    override func produce() {
        while pendingBytes < HTTP2Connection.pendingBytesMax {
            var data: UnsafePointer<UInt8>?
            let count = nghttp2_session_mem_send(session, &data)
            guard count > 0, let data else { break }
            output.append(contentsOf: UnsafeBufferPointer(start: data, count: count))
        }
        if nghttp2_session_want_read(session) == 0, nghttp2_session_want_write(session) == 0 { fail() }
    }

    override func lost() {
        for slot in slots.indices where slots[slot].head != nil { close(slot, broken: true) }
    }

    private func close(_ slot: Int, broken: Bool) {
        guard slots[slot].head != nil else { return }
        let (tag, status, began) = (slots[slot].tag, slots[slot].status, slots[slot].began)
        slots[slot].head = nil
        slots[slot].body = []
        freeSlots.append(slot)
        openStreams -= 1
        handler.ended(tag, status: broken ? 0 : status, began: began, on: self)
    }

    // MARK: Callbacks

    private static let readBody: nghttp2_data_source_read_callback = {
        _, _, buffer, length, flags, source, user in
        guard let mark = source?.pointee.ptr, let buffer, let flags, let user else {
            return Int(NGHTTP2_ERR_CALLBACK_FAILURE.rawValue)
        }
        return Unmanaged<HTTP2Connection>.fromOpaque(user)._withUnsafeGuaranteedRef { connection in
            let slot = Int(bitPattern: mark) - 1
            let offset = connection.slots[slot].offset
            let size = connection.slots[slot].body.withUnsafeBufferPointer { body in
                let size = min(length, body.count - offset)
                if let base = body.baseAddress { buffer.update(from: base + offset, count: size) }
                if offset + size == body.count { flags.pointee |= UInt32(NGHTTP2_DATA_FLAG_EOF.rawValue) }
                return size
            }
            connection.slots[slot].offset = offset + size
            return size
        }
    }

    // Safe: written once, before its first use; nghttp2 reads it when a session is made and never writes it.
    nonisolated(unsafe) private static let callbacks: OpaquePointer? = {
        var callbacks: OpaquePointer?
        nghttp2_session_callbacks_new(&callbacks)
        nghttp2_session_callbacks_set_on_header_callback(callbacks) {
            session, frame, name, _, value, count, _, user in
            guard let frame, let name, name.pointee == UInt8(ascii: ":"), let value else { return 0 }
            return HTTP2Connection.with(session, frame.pointee.hd.stream_id, user: user) { connection, slot in
                var status = 0
                for index in 0..<min(count, 3) { status = status * 10 + Int(value[index] &- 48) }
                connection.slots[slot].status = status
                connection.handler.opened(connection.slots[slot].tag, status: status)
            }
        }
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks) {
            session, _, stream, data, count, user in
            HTTP2Connection.with(session, stream, user: user) { connection, slot in
                connection.handler.received(
                    connection.slots[slot].tag, UnsafeRawBufferPointer(start: data, count: count))
            }
        }
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks) { session, stream, code, user in
            HTTP2Connection.with(session, stream, user: user) { connection, slot in
                connection.close(slot, broken: code != NGHTTP2_NO_ERROR.rawValue)
            }
        }
        return callbacks
    }()

    private static func with(
        _ session: OpaquePointer?, _ stream: Int32, user: UnsafeMutableRawPointer?,
        body: (HTTP2Connection, Int) -> Void
    ) -> Int32 {
        guard let user, let mark = nghttp2_session_get_stream_user_data(session, stream) else { return 0 }
        Unmanaged<HTTP2Connection>.fromOpaque(user)._withUnsafeGuaranteedRef {
            body($0, Int(bitPattern: mark) - 1)
        }
        return 0
    }
}
