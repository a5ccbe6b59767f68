import HTTPMessages

/// A request over HTTP/2 that is being read, with the state of the reading.
final class IncomingRequest: HTTPRequest {
    private(set) var head = RequestHead()
    /// Bytes that the body may have; `nil` before the handler was asked.
    var bodyMax: Int?
    /// Bytes of the fields that count as a body's bytes do, because the request waits for its body. 0 if
    /// the header block ends the request.
    var fieldBytes = 0
    /// Bytes of the bound of unfinished requests that this request holds.
    var held: Int { fieldBytes + body.count }

    init() {
        super.init(method: .get, target: [])
        fields.reserve()
    }

    /// Takes one field; false if the block is malformed or past its bounds, and stays so.
    func addField(
        _ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>, isTrailer: Bool,
        configuration: EdgeConfiguration
    ) -> Bool {
        head.bytes += name.count + value.count + 32
        head.fields += 1
        if head.bytes > configuration.headerBytesMax || head.fields > configuration.headerFieldsMax {
            head.isTooLarge = true
            return false
        }
        return head.addField(name, value, isTrailer: isTrailer, into: self)
    }

    fileprivate func clear() {
        reset()
        head = RequestHead()
        bodyMax = nil
        fieldBytes = 0
    }
}

/// Finished requests that the next requests reuse. A loop has one pool, so that an idle connection keeps no
/// request.
final class RequestPool {
    private var spare: [IncomingRequest] = []
    private static let spareMax = 256

    func take() -> IncomingRequest { spare.popLast() ?? IncomingRequest() }

    /// Keeps the request for the next one, unless something still refers to it.
    func giveBack(_ request: inout IncomingRequest) {
        guard spare.count < RequestPool.spareMax, isKnownUniquelyReferenced(&request) else { return }
        request.clear()
        spare.append(request)
    }
}
