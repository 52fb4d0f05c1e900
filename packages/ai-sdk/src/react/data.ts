import { useCallback, useState } from 'react';
import type { DataPart } from '../wire.js';

const KEPT = 100;

/**
 * Keeps the last data parts that `onData` got, for the hooks that take `data`. Control events are transient, so no
 * message has them.
 */
export function useDataParts(): { data: readonly DataPart[]; onData: (part: DataPart) => void } {
  const [data, setData] = useState<readonly DataPart[]>([]);
  const onData = useCallback((part: DataPart) => {
    setData((known) => [...known.slice(1 - KEPT), { ...part }]);
  }, []);
  return { data, onData };
}
