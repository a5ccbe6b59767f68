import HTTPMessages

/// A request over HTTP/2 that is being read, and what has come of it so far.
final class IncomingRequest: HTTPRequest {
    private(set) var head = RequestHead()
    /// Bytes that the body may have, once the handler was asked.
    var bodyMax: Int?
    /// Bytes of its fields that count as its body's do, since it is not whole with them.
    var fieldBytes = 0
    /// Bytes that it holds of the bound of unfinished requests.
    var held: Int { fieldBytes + body.count }

    init() {
        super.init(method: .get, target: [])
        fields.reserve()
    }

    /// Takes one field; false where the block is malformed or past its bounds, and stays so.
    func take(
        _ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>, isTrailer: Bool,
        _ configuration: EdgeConfiguration
    ) -> Bool {
        head.bytes += name.count + value.count + 32
        head.fields += 1
        if head.bytes > configuration.headerBytesMax || head.fields > configuration.headerFieldsMax {
            head.isTooLarge = true
            return false
        }
        return head.take(name, value, isTrailer: isTrailer, into: self)
    }

    fileprivate func clear() {
        reset()
        head = RequestHead()
        bodyMax = nil
        fieldBytes = 0
    }
}

/// Requests that are done, into which others are read. One for each loop, so that a connection that is idle
/// keeps nothing.
final class RequestPool {
    private var spare: [IncomingRequest] = []
    private static let spareMax = 256

    func take() -> IncomingRequest { spare.popLast() ?? IncomingRequest() }

    /// Kept for another, unless somebody still has it.
    func giveBack(_ request: inout IncomingRequest) {
        guard spare.count < RequestPool.spareMax, isKnownUniquelyReferenced(&request) else { return }
        request.clear()
        spare.append(request)
    }
}
