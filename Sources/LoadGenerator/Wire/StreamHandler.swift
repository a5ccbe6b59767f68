/// Who hears of a connection's streams. A tag is what the caller named the request with.
protocol StreamHandler: AnyObject {
    /// The answer's status has come.
    func opened(_ tag: Int, status: Int)
    func received(_ tag: Int, _ bytes: UnsafeRawBufferPointer)
    /// The stream has ended. `status` is 0 where it or its connection broke; `began` is when it was asked
    /// for.
    func ended(_ tag: Int, status: Int, began: UInt64, on connection: Connection)
}

extension StreamHandler {
    func opened(_ tag: Int, status: Int) {}
    func received(_ tag: Int, _ bytes: UnsafeRawBufferPointer) {}
}
