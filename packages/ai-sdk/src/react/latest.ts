import { useRef, type RefObject } from 'react';

/** A reference to the value of the last render, for callbacks that outlive it. */
export function useLatest<T>(value: T): RefObject<T> {
  const ref = useRef(value);
  ref.current = value;
  return ref;
}
