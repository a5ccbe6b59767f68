/// Receives the events of a connection's streams. A tag is the caller's name for its request.
protocol StreamHandler: AnyObject {
    /// The answer's status has come.
    func opened(_ tag: Int, status: Int)
    func received(_ tag: Int, _ bytes: UnsafeRawBufferPointer)
    /// The stream has ended. `status` is 0 if the stream or its connection broke; `began` is the time of
    /// the request.
    func ended(_ tag: Int, status: Int, began: UInt64, on connection: LoadConnection)
}

extension StreamHandler {
    func opened(_ tag: Int, status: Int) {}
    func received(_ tag: Int, _ bytes: UnsafeRawBufferPointer) {}
}
