@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzOneInput(_ data: UnsafePointer<UInt8>, _ size: Int) -> Int32 {
    Targets.run(UnsafeBufferPointer(start: data, count: size))
    return 0
}
